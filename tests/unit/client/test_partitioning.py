"""The key's hash against values of other implementations."""

import threading

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.partitioning import RoundRobin, murmur2, partition_for_key

# From the tests of Kafka's own client (UtilsTest), there as signed numbers.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA)
def test_the_hash_is_that_of_java(key: bytes) -> None:
    assert murmur2(key) == JAVA[key] % 2**32


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_the_partition_is_that_of_librdkafka(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == confluent_kafka.murmur2(key, count)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        partition_for_key(b"k", 0)


def test_turns_are_per_topic_and_fair_between_threads() -> None:
    turns = RoundRobin({"a": 3, "b": 2}.__getitem__)
    assert [turns.next_partition("a") for _ in range(4)] == [0, 1, 2, 0]
    assert turns.next_partition("b") == 0

    taken: list[int] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(turns.next_partition("b") for _ in range(300))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(0) == taken.count(1) == 600
