"""What consuming costs: its rate, processor time of the broker and of clients for each GB, MB for each wake-up.

Clients and broker share the cores, so the rate says as much of the clients. A wake-up is a sleep of one of the broker's
threads that ended: the less is done between two of them, the more of them it takes. Where Apache Kafka can be had
(`maven`) it is asked the same in turns, by the same clients. A figure is the median of its rounds, a ratio that of the
rounds' ratios.

Clients are native ones that fetch 4 MB at a time, or 1 MB, which is what librdkafka does unless it is told otherwise.
"""

import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from bench import native_client
from bench.apache_kafka import AS_SHIPPED, apache_kafka
from bench.maven import KAFKA, broker_jars
from bench.measure import Row, scratch_directory
from bench.served import Served, served

ROUNDS = 7
MANY = 16
LEVEL: Final = 1.00
MB_A_FETCH: Final = (4, 1)
QUIET_S: Final = 0.5  # a broker that takes less than a twentieth of a core for so long seems to have nothing left to do
QUIET_TIMES: Final = 3  # one after the other: where cores are scarce, work may just not have had its turn
LONGEST_S: Final = 10.0


class Cost(NamedTuple):
    """What one round took."""

    rate_mb: float  # a second
    broker_s: float  # of processor time for each GB
    client_s: float
    mb_per_wake_up: float


class Asked(NamedTuple):
    """What is asked of a broker."""

    size: int  # of a record
    records: int  # for each client
    clients: int
    fetch_mb: int

    @property
    def name(self) -> str:
        who = "1 client" if self.clients == 1 else f"{self.clients} clients"
        return f"consume {self.size} B, {who}, {self.fetch_mb} MB a fetch"

    def of(self, broker: Served) -> Cost:
        """Have it done once."""
        processor, wake_ups, used = broker.processor_s(), broker.wake_ups(), _used_by_clients_s()
        limits = (str(self.records), str(self.size), str(self.fetch_mb * 10**6))
        arguments = ("consume", broker.bootstrap, _topic(self.size), *limits)
        if self.clients == 1:
            took = native_client.run(*arguments)
        else:
            took = native_client.run_at_once(self.clients, *arguments)
        amount = self.clients * self.records * self.size
        return Cost(
            amount / took / 1e6,
            (broker.processor_s() - processor) / amount * 1e9,
            (_used_by_clients_s() - used) / amount * 1e9,
            amount / 1e6 / max(broker.wake_ups() - wake_ups, 1),
        )


def rows(*, quick: bool) -> Iterator[Row]:
    if native_client.build() is None:
        yield Row("consuming with native clients", "no C compiler or no librdkafka here")
        return
    scale = 20 if quick else 1
    jars = broker_jars()
    with ExitStack() as stack:
        brokers = [stack.enter_context(served("log.flush.policy=os"))]
        if jars is not None:
            directory = stack.enter_context(scratch_directory())
            brokers.append(stack.enter_context(apache_kafka(jars, directory, java_options=AS_SHIPPED)))
        for size, count in ((100, 2_000_000 // scale), (1000, 300_000 // scale)):
            for broker in brokers:
                native_client.run("produce", broker.bootstrap, _topic(size), str(count), str(size), "1")
            for fetch_mb in MB_A_FETCH:
                yield from _rows(brokers, Asked(size, count, 1, fetch_mb))
                yield from _rows(brokers, Asked(size, count // 4, MANY, fetch_mb))


def _rows(brokers: Sequence[Served], asked: Asked) -> Iterator[Row]:
    costs: list[list[Cost]] = [[] for _ in brokers]
    for round_number in range(ROUNDS + 1):
        # Who goes first changes, so that neither always finds the caches as the other left them.
        numbered = list(enumerate(brokers))
        for number, broker in numbered if round_number % 2 else numbered[::-1]:
            if round_number == 1:
                _wait_quiet(broker)
            costs[number].append(asked.of(broker))
    ours, *peers = [each[1:] for each in costs]  # the first round finds everything cold
    if not peers:
        yield Row(asked.name, _rate(ours), "no Apache Kafka here")
        yield Row("  processor time", _processor_time(ours))
        return
    (kafka,) = peers
    ratio = statistics.median(each.rate_mb / theirs.rate_mb for each, theirs in zip(ours, kafka, strict=True))
    yield Row(asked.name, _rate(ours), f"Kafka {KAFKA}: {_rate(kafka)}", ratio, LEVEL)
    saved = statistics.median(theirs.broker_s / each.broker_s for each, theirs in zip(ours, kafka, strict=True))
    yield Row("  processor time", _processor_time(ours), _processor_time(kafka), saved)


def _rate(costs: list[Cost]) -> str:
    rate_mb, _, _, mb_per_wake_up = _medians(costs)
    return f"{rate_mb:,.0f} MB/s, {mb_per_wake_up:.2f} MB a wake-up"


def _processor_time(costs: list[Cost]) -> str:
    _, broker_s, client_s, _ = _medians(costs)
    return f"broker {broker_s:.2f}, clients {client_s:.2f} s/GB"


def _medians(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))


def _wait_quiet(broker: Served) -> None:
    """Wait until a broker has finished what it does by itself after a burst: loading, compiling, collecting."""
    deadline = time.monotonic() + LONGEST_S
    quiet = 0
    while quiet < QUIET_TIMES and time.monotonic() < deadline:
        before = broker.processor_s()
        time.sleep(QUIET_S)
        quiet = quiet + 1 if broker.processor_s() - before < QUIET_S / 20 else 0


def _topic(size: int) -> str:
    return f"consumed-{size}"


def _used_by_clients_s() -> float:
    """Processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
