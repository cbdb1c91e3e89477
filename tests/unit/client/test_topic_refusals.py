"""What is said of a topic that is not there."""

import pytest

from barnabas.client.bus import Bus
from barnabas.core.errors import UnknownTopicOrPartition


def test_a_topic_that_does_not_exist_is_not_deleted(real_bus: Bus) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="^topic 'nowhere' does not exist$"):
        real_bus.delete_topic("nowhere")
