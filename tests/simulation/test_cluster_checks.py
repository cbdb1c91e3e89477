"""The checks of the simulated cluster: what they must not take for a broken promise, and what they must."""

import asyncio
import errno
from collections import Counter

import pytest

from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from tests.simulation.cluster_checks import Checks, Watcher
from tests.unit.runtime.metadata_support import start_metadata


async def watched() -> tuple[DataDir, MetadataLog, Checks, Watcher]:
    """A node whose log ends with a record that is not synced, though others have committed it."""
    data_dir, metadata = await start_metadata(SimulatedDisk(1))
    checks = Checks(Counter())
    watcher = Watcher(checks, 3, metadata)
    watcher._check_log(metadata.end_offset)
    batch = encode_batch([Record(0, 0, b"key", b"value")])
    metadata._log.append(batch, epoch=metadata.epoch, now_ms=0)
    return data_dir, metadata, checks, watcher


@pytest.mark.parametrize("is_offline", [False, True])
def test_an_unsynced_record_that_others_have_committed_breaks_no_promise(*, is_offline: bool) -> None:
    async def scenario() -> None:
        data_dir, metadata, checks, watcher = await watched()
        if is_offline:
            data_dir.health.fail_for_good(OSError(errno.EIO, "another log in the directory could not be synced"))

        watcher._check_log(metadata.end_offset)

        assert checks.broken is None
        assert (metadata.end_offset - 1 in checks.committed) is not is_offline

    asyncio.run(scenario())


def test_a_record_that_is_called_committed_and_is_not_there_breaks_one() -> None:
    async def scenario() -> None:
        _, metadata, checks, watcher = await watched()

        watcher._check_log(metadata.end_offset + 1)

        assert "and has no" in str(checks.broken)

    asyncio.run(scenario())
