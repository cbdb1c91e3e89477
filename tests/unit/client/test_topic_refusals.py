"""What is said of a topic that is not there."""

import pytest

from barnabas.client.bus import Bus
from barnabas.client.errors import DeliveryFailed
from barnabas.core.errors import UnknownTopicOrPartition


def test_a_topic_that_does_not_exist_is_not_deleted(real_bus: Bus) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=r"^topic 'nowhere' does not exist$"):
        real_bus.delete_topic("nowhere")


def test_a_record_for_a_partition_that_does_not_exist_is_refused_by_its_number(real_bus: Bus) -> None:
    real_bus.create_topic("few", partitions=2)

    real_bus.send("few", "value", partition=7)

    with pytest.raises(DeliveryFailed, match="topic 'few': it has no partition 7"):
        real_bus.flush(60)
