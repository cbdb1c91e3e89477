"""Large records, on a real broker: the topic says how large they may be, not the client."""

import pytest

from barnabas.client.bus import Bus
from barnabas.client.errors import DeliveryFailed
from barnabas.core.errors import RecordTooLarge


def test_a_topic_that_takes_large_records_gets_them(real_bus: Bus) -> None:
    real_bus.create_topic("large", partitions=1, config={"max.message.bytes": "10000000"})
    value = b"x" * 5_000_000

    for part in (b"small", value, b"small"):  # a large one must not share a batch that then is larger still
        real_bus.send("large", part)
    real_bus.flush(60)

    assert [record.value for record in real_bus.consume("large", until_end=True)] == [b"small", value, b"small"]


def test_a_record_over_the_limit_of_its_topic_is_refused_with_both_numbers(real_bus: Bus) -> None:
    real_bus.create_topic("small", partitions=1, config={"max.message.bytes": "2000000"})

    with pytest.raises(DeliveryFailed, match=r"'small'.* with 3000003 bytes .* max\.message\.bytes is 2000000"):
        real_bus.send("small", b"x" * 3_000_000, key=b"key").result(60)
    with pytest.raises(DeliveryFailed, match="2000000"):
        real_bus.flush(60)


def test_a_record_over_the_limit_of_a_client_is_refused_with_its_size(mock_bootstrap: str) -> None:
    with (
        Bus(mock_bootstrap, delivery="exactly-once", config={"message.max.bytes": "2000"}) as bus,
        pytest.raises(RecordTooLarge, match=r"3000 bytes .* message\.max\.bytes"),
    ):
        bus.send("any", b"x" * 3000)
