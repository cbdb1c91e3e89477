"""The topics a node serves, when things go wrong beneath them."""

from collections.abc import Callable, Sequence

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.model import TopicPartition
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.support import create, run


def test_files_that_cannot_be_removed_end_neither_the_node_nor_the_wait_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> list[str]:
        raise StorageError("the disk is gone")

    def begin_removal(partitions: Sequence[TopicPartition]) -> Callable[[], list[str]]:
        return fail

    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        broker.logs.data_dir.begin_removal = begin_removal  # type: ignore[method-assign]
        await broker.topics.delete("t")
        await broker.served.wait_removed("t")
        await create(broker, "other")
        assert list(broker.served.by_name) == ["other"]

    run(scenario)
    assert "the files of topic t are not removed: the disk is gone" in caplog.text
