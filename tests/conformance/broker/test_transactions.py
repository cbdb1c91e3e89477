"""Transactions with real clients: all of one is read, or nothing of it, whoever writes and whoever reads."""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from barnabas.client import Bus
from tests.conformance.broker.clients import CLIENTS, TIMEOUT_S
from tests.conformance.broker.group_members import MEMBERS, SETTINGS, closing, read_all
from tests.conformance.broker.served import ServedBroker
from tests.conformance.broker.transactional import PRODUCER_OF, PRODUCERS, Refused, TransactionalProducer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FENCED = {"_FENCED", "ProducerFenced", "ProducerFencedError"}
TIMED_OUT = FENCED | {"InvalidProducerEpoch", "InvalidProducerEpochError", "INVALID_PRODUCER_EPOCH"}
MakeTopic = Callable[..., str]

every_producer = pytest.mark.parametrize("name", PRODUCERS)
every_member = pytest.mark.parametrize("kind", MEMBERS)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker whose groups rebalance quickly."""
    with ServedBroker(tmp_path_factory.mktemp("transactions"), *SETTINGS) as served:
        yield served
    assert "Traceback" not in served.log, served.log


@pytest.fixture(scope="module")
def bus(quick: ServedBroker) -> Iterator[Bus]:
    with Bus(quick.bootstrap) as opened:
        yield opened


@pytest.fixture
def make_topic(bus: Bus) -> MakeTopic:
    def make(partitions: int = 1, **config: str) -> str:
        name = f"transacted-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        bus.create_topic(name, partitions=partitions, config=settings)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


def read_just(served: ServedBroker, reader: str, topic: str, count: int, *, partitions: int = 1) -> list[bytes]:
    """What a client reads that wants only what is committed: so many values in order, and what should not come."""
    with CLIENTS[reader].consume(served.bootstrap, topic, range(partitions), is_committed=True) as consumer:
        reads = consumer.read(count) + consumer.read(1, timeout_s=0.2)
    return sorted(read.value or b"" for read in reads)


def read_all_there_is(served: ServedBroker, reader: str, topic: str, count: int, *, partitions: int = 1) -> list[bytes]:
    """What a client reads that takes whatever was written."""
    with CLIENTS[reader].consume(served.bootstrap, topic, range(partitions)) as consumer:
        return sorted(read.value or b"" for read in consumer.read(count))


def wait_stable(served: ServedBroker, topic: str) -> None:
    """Return when no transaction is open in a topic of one partition."""
    deadline = time.monotonic() + TIMEOUT_S
    with (
        CLIENTS["aiokafka"].consume(served.bootstrap, topic, is_committed=True) as stable,
        CLIENTS["aiokafka"].consume(served.bootstrap, topic) as whole,
    ):
        while (end := stable.end_offsets([0])) != whole.end_offsets([0]):
            assert time.monotonic() < deadline, f"still stable up to {end} only"
            time.sleep(0.02)


@every_producer
def test_what_is_committed_is_read_and_nothing_of_what_is_aborted_or_open(
    quick: ServedBroker, make_topic: MakeTopic, name: str
) -> None:
    topics = [make_topic(3), make_topic(3)]
    with closing(PRODUCERS[name](quick.bootstrap, topics[0])) as producer:
        for value, end in ((b"committed", producer.commit), (b"aborted", producer.abort), (b"open", producer.flush)):
            producer.begin()
            for topic, partition in itertools.product(topics, range(3)):
                producer.send(topic, partition, value)
            producer.flush()
            end()
        for reader, topic in (*((reader, topics[0]) for reader in CLIENTS), (name, topics[1])):
            assert read_just(quick, reader, topic, 3, partitions=3) == [b"committed"] * 3
            everything = [b"aborted"] * 3 + [b"committed"] * 3 + [b"open"] * 3
            assert read_all_there_is(quick, reader, topic, 9, partitions=3) == everything
        producer.commit()
        for reader in CLIENTS:
            assert read_just(quick, reader, topics[0], 6, partitions=3) == [b"committed"] * 3 + [b"open"] * 3


@every_producer
def test_every_codec_has_its_place_in_transactions(quick: ServedBroker, make_topic: MakeTopic, name: str) -> None:
    """In a topic that stores what comes, and in one that has a codec of its own."""
    topics = [make_topic(), make_topic(compression_type="zstd")]
    for codec in CODECS:
        with closing(PRODUCERS[name](quick.bootstrap, topics[0], codec=codec)) as producer:
            for what, end in ((b"aborted", producer.abort), (b"committed", producer.commit)):
                producer.begin()
                for number, topic in itertools.product(range(20), topics):
                    producer.send(topic, 0, b"%s %s %02d" % (what, codec.encode(), number))
                producer.flush()
                end()
    expected = sorted(b"committed %s %02d" % (codec.encode(), number) for codec in CODECS for number in range(20))
    for reader, topic in itertools.product(CLIENTS, topics):
        assert read_just(quick, reader, topic, len(expected)) == expected


@every_producer
def test_a_transaction_may_be_empty(quick: ServedBroker, topic: str, name: str) -> None:
    with closing(PRODUCERS[name](quick.bootstrap, topic)) as producer:
        for end in (producer.commit, producer.abort, producer.commit):
            producer.begin()
            end()
        producer.begin()
        producer.send(topic, 0, b"full")
        producer.commit()
    assert read_just(quick, name, topic, 1) == [b"full"]


@every_producer
def test_a_large_transaction_is_one(quick: ServedBroker, make_topic: MakeTopic, name: str) -> None:
    count, partitions = 10_000, 50
    topic = make_topic(partitions)
    sent = [b"%05d" % number for number in range(count)]
    with closing(PRODUCERS[name](quick.bootstrap, topic)) as producer:
        for end in (producer.abort, producer.commit):
            producer.begin()
            for number, value in enumerate(sent):
                producer.send(topic, number % partitions, value)
            producer.flush()
            assert read_just(quick, "librdkafka", topic, 0, partitions=partitions) == []
            end()
    assert read_just(quick, "librdkafka", topic, count, partitions=partitions) == sent


@every_producer
def test_a_second_producer_of_an_id_fences_the_first(quick: ServedBroker, topic: str, name: str) -> None:
    with closing(PRODUCERS[name](quick.bootstrap, topic)) as zombie:
        zombie.begin()
        zombie.send(topic, 0, b"before")
        zombie.flush()
        with closing(PRODUCERS[name](quick.bootstrap, topic)) as producer:
            producer.begin()
            producer.send(topic, 0, b"of the second")
            producer.flush()
            with pytest.raises(Refused) as refusal:
                zombie.commit()
            assert str(refusal.value) in FENCED
            producer.commit()
    for reader in CLIENTS:
        assert read_just(quick, reader, topic, 1) == [b"of the second"]


@every_producer
def test_a_zombie_can_write_no_more(quick: ServedBroker, topic: str, name: str) -> None:
    with closing(PRODUCERS[name](quick.bootstrap, topic)) as zombie:
        zombie.begin()
        zombie.send(topic, 0, b"before")
        zombie.flush()
        with closing(PRODUCERS[name](quick.bootstrap, topic)) as producer:
            with pytest.raises(Refused):  # by the write or by the commit, as the client will have it
                write_and_commit(zombie, topic)
            producer.begin()
            producer.send(topic, 0, b"of the second")
            producer.commit()
    assert read_just(quick, name, topic, 1) == [b"of the second"]
    assert read_all_there_is(quick, name, topic, 2) == [b"before", b"of the second"]


def write_and_commit(producer: TransactionalProducer, topic: str) -> None:
    producer.send(topic, 0, b"after")
    producer.commit()


@every_producer
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_hears_of_it(
    quick: ServedBroker, topic: str, name: str
) -> None:
    with closing(PRODUCERS[name](quick.bootstrap, topic, timeout_ms=1000)) as producer:
        producer.begin()
        producer.send(topic, 0, b"too late")
        producer.flush()
        wait_stable(quick, topic)
        with pytest.raises(Refused) as refusal:
            producer.commit()
        assert str(refusal.value) in TIMED_OUT
    with closing(PRODUCERS[name](quick.bootstrap, topic)) as producer:
        producer.begin()
        producer.send(topic, 0, b"in time")
        producer.commit()
    assert read_just(quick, name, topic, 1) == [b"in time"]


# Offsets


@every_member
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    quick: ServedBroker, bus: Bus, make_topic: MakeTopic, kind: str
) -> None:
    source, sink = make_topic(2), make_topic()
    for number in range(20):
        bus.send(source, b"%d" % number, partition=number % 2)
    bus.flush(TIMEOUT_S)
    with (
        closing(MEMBERS[kind](quick.bootstrap, source, source)) as member,
        closing(PRODUCERS[PRODUCER_OF[kind]](quick.bootstrap, source)) as producer,
    ):
        read_all(member, 20)
        for offset, end, expected in ((4, producer.abort, None), (7, producer.commit, 7), (9, producer.abort, 7)):
            producer.begin()
            producer.send(sink, 0, b"%d" % offset)
            producer.send_offsets(source, {0: offset, 1: offset}, member.metadata)
            end()
            assert [member.committed(partition) for partition in (0, 1)] == [expected, expected]
    assert read_just(quick, PRODUCER_OF[kind], sink, 1) == [b"7"]
    with closing(MEMBERS[kind](quick.bootstrap, source, source)) as member:
        assert {each.offset for each in read_all(member, 6)} == {7, 8, 9}


@every_member
def test_offsets_alone_make_a_transaction(quick: ServedBroker, bus: Bus, topic: str, kind: str) -> None:
    bus.send(topic, b"1")
    bus.flush(TIMEOUT_S)
    with (
        closing(MEMBERS[kind](quick.bootstrap, topic, topic)) as member,
        closing(PRODUCERS[PRODUCER_OF[kind]](quick.bootstrap, topic)) as producer,
    ):
        read_all(member, 1)
        producer.begin()
        producer.send_offsets(topic, {0: 1}, member.metadata)
        producer.commit()
        assert member.committed(0) == 1


@pytest.mark.parametrize("kind", ["librdkafka", "librdkafka-848", "kafka-python"])
def test_offsets_of_a_member_that_is_no_longer_one_are_refused(
    quick: ServedBroker, bus: Bus, topic: str, kind: str
) -> None:
    bus.send(topic, b"1")
    bus.flush(TIMEOUT_S)
    member = MEMBERS[kind](quick.bootstrap, topic, topic)
    read_all(member, 1)
    metadata = member.metadata
    member.close()
    with (
        closing(MEMBERS[kind](quick.bootstrap, topic, topic)) as other,
        closing(PRODUCERS[PRODUCER_OF[kind]](quick.bootstrap, topic)) as producer,
    ):
        read_all(other, 1)
        producer.begin()
        with pytest.raises(Refused):
            producer.send_offsets(topic, {0: 1}, metadata)
        producer.abort()
        assert other.committed(0) is None
        producer.begin()
        producer.send_offsets(topic, {0: 1}, other.metadata)
        producer.commit()
        assert other.committed(0) == 1
