"""One partition that its broker cannot read: it is named, and the others are shown."""

import shutil
from pathlib import Path

import pytest

from barnabas.client.errors import Unreadable
from barnabas.testing.embedded import EmbeddedBroker


def test_a_partition_that_cannot_be_read_is_named_and_hides_no_other(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=str(tmp_path)) as broker:
        broker.bus.create_topic("orders", partitions=2)
        for partition in (0, 1, 1):
            broker.bus.send("orders", "value", partition=partition).result(60)
    shutil.rmtree(tmp_path / "orders-0")

    with EmbeddedBroker(data_dir=str(tmp_path)) as broker:
        lost, whole = broker.bus.describe_topic("orders").partitions
        assert (lost.start_offset, lost.end_offset) == (-1, -1)
        assert "orders-0" in (lost.problem or "")
        assert (whole.start_offset, whole.end_offset, whole.problem) == (0, 2, None)
        with pytest.raises(Unreadable, match=r"orders-0: .* barnabas topic repair orders"):
            broker.bus.consume("orders", until_end=True)
        assert len(list(broker.bus.consume("orders", partitions=[1], until_end=True))) == 2
