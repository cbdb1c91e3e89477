"""A data directory is taken offline by its first error, for good."""

import pytest

from barnabas.core.errors import BarnabasError, CorruptLog, StorageError
from barnabas.storage.health import DirectoryHealth


def test_a_healthy_directory_lets_everything_through() -> None:
    health = DirectoryHealth("/data")
    health.check()
    with health.guarded():
        pass
    assert health.offline_reason is None


def test_an_error_of_the_operating_system_takes_it_offline() -> None:
    health = DirectoryHealth("/data")
    with pytest.raises(StorageError, match=r"/data is taken offline: .*No space left"), health.guarded():
        raise OSError(28, "No space left on device")
    with pytest.raises(StorageError, match=r"/data is offline: .*No space left"):
        health.check()


def test_nothing_is_tried_on_an_offline_directory() -> None:
    health = DirectoryHealth("/data")
    health.fail(OSError("gone"))
    with pytest.raises(StorageError, match="gone"), health.guarded():
        pytest.fail("the guarded block ran")


def test_the_first_reason_is_kept() -> None:
    health = DirectoryHealth("/data")
    health.fail(OSError("first"))
    assert "first" in str(health.fail(OSError("second")))
    assert health.offline_reason == "first"


def test_an_error_without_a_text_still_gives_a_reason() -> None:
    health = DirectoryHealth("/data")
    health.fail(FileNotFoundError())
    assert health.offline_reason == "FileNotFoundError"


@pytest.mark.parametrize("refusal", [CorruptLog("damage"), BarnabasError("no")])
def test_a_refusal_does_not_take_it_offline(refusal: BarnabasError) -> None:
    health = DirectoryHealth("/data")
    with pytest.raises(type(refusal)), health.guarded():
        raise refusal
    assert health.offline_reason is None
