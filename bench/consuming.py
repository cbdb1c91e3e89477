"""What consuming costs: processor time of the broker and of clients for each GB, MB for each wake-up of the loop.

Clients and broker share the cores, so the rate says as much of the clients. A wake-up is a sleep of the loop's thread
that ended: the less is done between two of them, the more of them it takes. A figure is the median of its rounds.
"""

import resource
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from bench import native_client
from bench.measure import Row
from bench.served import Served, served

ROUNDS = 5
MANY = 16
TOPIC = "consumed"


class Cost(NamedTuple):
    """What one round took."""

    rate_mb: float  # a second
    broker_s: float  # of processor time for each GB
    client_s: float
    mb_per_wake_up: float


def rows(*, quick: bool) -> Iterator[Row]:
    if native_client.build() is None:
        yield Row("consuming with native clients", "no C compiler or no librdkafka here")
        return
    scale = 20 if quick else 1
    for size, count in ((100, 2_000_000 // scale), (1000, 300_000 // scale)):
        with served("log.flush.policy=os") as broker:
            native_client.run("produce", broker.bootstrap, TOPIC, str(count), str(size), "1")
            yield _row(broker, size, count, clients=1)
            yield _row(broker, size, count // 4, clients=MANY)


def _row(broker: Served, size: int, count: int, *, clients: int) -> Row:
    _consume(broker, size, count, clients)  # once before, to warm up
    costs = [_consume(broker, size, count, clients) for _ in range(ROUNDS)]
    rate_mb, broker_s, client_s, mb_per_wake_up = (statistics.median(each) for each in zip(*costs, strict=True))
    who = "1 client" if clients == 1 else f"{clients} clients"
    return Row(
        f"consume {size} B, {who}",
        f"{rate_mb:,.0f} MB/s, {mb_per_wake_up:.1f} MB a wake-up",
        f"processor time of the broker {broker_s:.2f}, of clients {client_s:.2f} s/GB",
    )


def _consume(broker: Served, size: int, count: int, clients: int) -> Cost:
    processor, wake_ups, used = broker.processor_s(), broker.wake_ups(), _used_by_clients_s()
    took = native_client.run_at_once(clients, "consume", broker.bootstrap, TOPIC, str(count), str(size))
    amount = clients * count * size
    return Cost(
        amount / took / 1e6,
        (broker.processor_s() - processor) / amount * 1e9,
        (_used_by_clients_s() - used) / amount * 1e9,
        amount / 1e6 / max(broker.wake_ups() - wake_ups, 1),
    )


def _used_by_clients_s() -> float:
    """Processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
