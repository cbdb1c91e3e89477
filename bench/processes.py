"""More cores on one machine: `serve --processes 2` against one process, the same clients for both, in turns.

Two clients work at the same time, each on a topic of its own. With two processes each process leads one of the topics;
with one process it leads both. The clients share the cores with the brokers: on a machine of two cores, what two
processes gain is only what the clients leave them, and a client that needs a core for itself leaves nothing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from barnabas.client import Bus
from barnabas.core.records.record import encode_batch
from bench import native_client
from bench.logs import make_records
from bench.measure import Compared, Row, compare, rate, seconds
from bench.raw_client import RawClient
from bench.served import Served, served

CLIENTS: Final = 2
OS: Final = "log.flush.policy=os"
ROUNDS: Final = 5
IN_FLIGHT: Final = 64
SIZES: Final = ((100, 1_000_000), (1000, 200_000))


def rows(*, quick: bool) -> Iterator[Row]:
    scale = 20 if quick else 1
    with ExitStack() as stack:
        one = stack.enter_context(served(OS))
        two = stack.enter_context(served(OS, processes=CLIENTS))
        yield _requests_row(one, two, count=100_000 // scale)
        if native_client.build() is None:
            yield Row("two processes with native clients", "no C compiler or no librdkafka here")
            return
        for size, count in SIZES:
            yield from _native_rows(one, two, size=size, count=count // scale)


def _requests_row(one: Served, two: Served, *, count: int) -> Row:
    """Requests of one record: nearly all of the work is the broker's."""
    batch = bytes(encode_batch(make_records(1)))

    def work(broker: Served) -> Callable[[int], float]:
        topics = _create_topics(broker, "requests")
        clients = [RawClient(bootstrap) for bootstrap in _leaders(broker)]
        for client, topic in zip(clients, topics, strict=True):
            client.produce_pipelined(topic, batch, count=IN_FLIGHT, in_flight=IN_FLIGHT)
        return lambda at: seconds(
            lambda: clients[at].produce_pipelined(topics[at], batch, count=count, in_flight=IN_FLIGHT)
        )

    found = _compare(work(one), work(two), amount=count)
    return _row("produce requests of one record, two clients, acks=1", found, "requests/s")


def _native_rows(one: Served, two: Served, *, size: int, count: int) -> Iterator[Row]:
    name = f"records-{size}"

    def produce(broker: Served) -> Callable[[int], float]:
        topics = _create_topics(broker, name)
        return lambda at: native_client.run("produce", broker.bootstrap, topics[at], str(count), str(size), "all")

    def consume(broker: Served) -> Callable[[int], float]:
        topics = _names(name)
        return lambda at: native_client.run("consume", broker.bootstrap, topics[at], str(count), str(size))

    found = _compare(produce(one), produce(two), amount=count)
    yield _row(f"produce {size} B, two native clients, acks=all", found, "records/s")
    found = _compare(consume(one), consume(two), amount=count)
    yield _row(f"consume {size} B, two native clients", found, "records/s")


def _compare(with_one: Callable[[int], float], with_two: Callable[[int], float], *, amount: int) -> Compared:
    """Both in turns, each with all its clients at once; a round takes as long as the slowest of them."""
    with ThreadPoolExecutor(CLIENTS) as threads:

        def at_once(work: Callable[[int], float]) -> float:
            return max(threads.map(work, range(CLIENTS)))

        return compare(lambda: at_once(with_two), lambda: at_once(with_one), amount=amount * CLIENTS, rounds=ROUNDS)


def _row(what: str, found: Compared, unit: str) -> Row:
    return Row(
        f"{what}: {CLIENTS} processes",
        rate(found.ours, unit),
        f"1 process {rate(found.limit, unit)}",
        found.ratio,
    )


# Topics


def _names(name: str) -> list[str]:
    return [f"{name}-{client}" for client in range(CLIENTS)]


def _create_topics(broker: Served, name: str) -> list[str]:
    """A topic for each client, led by a process of its own as far as there are that many."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # noqa: PLC0415 - slow to load

    count = len(broker.bootstrap.split(","))
    topics = [NewTopic(each, 1, replica_assignment=[[at % count + 1]]) for at, each in enumerate(_names(name))]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics(topics).values():
        created.result(30)
    with Bus(broker.bootstrap) as bus:
        for each in _names(name):
            bus.send(each, b"first").result(30)  # the leader knows by then that it leads
    return _names(name)


def _leaders(broker: Served) -> list[str]:
    """Where the leader of each client's topic is."""
    addresses = broker.bootstrap.split(",")
    return [addresses[client % len(addresses)] for client in range(CLIENTS)]
