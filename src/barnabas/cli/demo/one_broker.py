"""The first act of the demo: one broker at work.

Orders stream into a topic of three partitions; in the middle of it the broker is killed with SIGKILL and started again,
while the producer goes on. Then everything is read back and compared: all of it, single orders by id and by time, and
the three partitions merged in order of time. At the end the topic is compacted by customer and history is deleted.
"""

import json
import random
import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from barnabas.cli.demo.findings import DemoFailed, Findings
from barnabas.cli.demo.process import BrokerProcess
from barnabas.client import Bus, Message
from barnabas.client.producers import Sent

TOPIC: Final = "orders"
PARTITIONS: Final = 3
FIRST_MS: Final = 1_700_000_000_000
COUNTRIES: Final = ("AT", "BE", "CZ", "DE", "FR", "IT", "NL", "PL")
COMPACTION_S: Final = 60.0


def show(
    console: Console, bus: Bus, broker: BrokerProcess, orders: int, dice: random.Random, findings: Findings
) -> None:
    # The orders have times of long ago, which retention would take for a reason to delete them.
    bus.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": "-1"})
    with Progress(*columns(), console=console) as progress:
        places = _produce(progress, bus, broker, orders, dice, findings)
        read_back(progress, bus, orders, findings)
        _merge(progress, bus, orders, findings)
        _look_up(bus, places, dice, findings)
        _compact(progress, bus, findings)
    _truncate(bus, findings)


def columns() -> Sequence[ProgressColumn]:
    """What the progress of a step shows."""
    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()


def make_order(number: int) -> tuple[str, str]:
    """Key and value of the order with this number; always the same, so that what is read can be checked."""
    customer = number * 7919 % 1000
    value = {
        "order": number,
        "customer": customer,
        "country": COUNTRIES[customer % len(COUNTRIES)],
        "cents": number * 104_729 % 50_000,
    }
    return f"customer-{customer}", json.dumps(value)


def _produce(
    progress: Progress, bus: Bus, broker: BrokerProcess, orders: int, dice: random.Random, findings: Findings
) -> dict[int, Sent]:
    """Send every order; the broker is killed meanwhile, which the producer sees only as a pause."""
    task = progress.add_task("produce, with a SIGKILL in the middle", total=orders)
    kill_at = int(orders * dice.uniform(0.3, 0.7))
    watched = set(dice.sample(range(orders), 100))
    places: dict[int, Sent] = {}
    begin = time.perf_counter()
    restart_s = 0.0
    for number in range(orders):
        key, value = make_order(number)
        sent = bus.send(TOPIC, value, key=key, timestamp_ms=FIRST_MS + number)
        if number in watched:
            places[number] = sent
        if number == kill_at:
            broker.kill()
            restart_s = broker.start()
        if number % 1000 == 0:
            progress.update(task, completed=number)
    bus.flush(120)
    took = time.perf_counter() - begin
    progress.update(task, completed=orders)
    findings.add("produced, each acknowledged on disk", f"{orders:,} orders in {took:.1f} s, the kill included")
    findings.add("broker killed and started again", f"at order {kill_at:,}; ready after {restart_s * 1000:,.0f} ms")
    return places


def read_back(progress: Progress, bus: Bus, orders: int, findings: Findings) -> None:
    """Read everything, and find every order once and as it was sent."""
    task = progress.add_task("read everything", total=orders)
    seen = [0] * orders
    begin = time.perf_counter()
    for count, message in enumerate(bus.consume(TOPIC, until_end=True), start=1):
        seen[_check(message)] += 1
        if count % 1000 == 0:
            progress.update(task, completed=count)
    took = time.perf_counter() - begin
    progress.update(task, completed=orders)
    lost, doubled = seen.count(0), sum(1 for times in seen if times > 1)
    if lost or doubled:
        raise DemoFailed(f"of {orders} orders {lost} are lost and {doubled} are duplicated")
    findings.add("lost, duplicated", "0, 0")
    findings.add("read back and compared", f"{orders:,} orders in {took:.1f} s")


def _merge(progress: Progress, bus: Bus, orders: int, findings: Findings) -> None:
    """Three partitions as one stream: the orders come in the order in which they were created."""
    task = progress.add_task("merge by time", total=orders)
    expected = 0
    for message in bus.merge(TOPIC):
        if _check(message) != expected:
            raise DemoFailed(f"the merge returned order {_check(message)} instead of {expected}")
        expected += 1
        if expected % 1000 == 0:
            progress.update(task, completed=expected)
    progress.update(task, completed=orders)
    if expected != orders:
        raise DemoFailed(f"the merge returned {expected} of {orders} orders")
    findings.add("three partitions merged by time", "every order in its place")


def _look_up(bus: Bus, places: dict[int, Sent], dice: random.Random, findings: Findings) -> None:
    number, sent = dice.choice(sorted(places.items()))
    place = sent.result(10)
    bus.get(TOPIC, place.partition, place.offset)
    begin = time.perf_counter()
    found = bus.get(TOPIC, place.partition, place.offset)
    took = time.perf_counter() - begin
    if _check(found) != number:
        raise DemoFailed(f"{TOPIC}-{place.partition} at {place.offset} has order {_check(found)}, not {number}")
    findings.add(
        f"order by id, {TOPIC}-{place.partition} at {place.offset:,}", f"order {number:,} in {took * 1000:.1f} ms"
    )
    begin = time.perf_counter()
    first = next(bus.consume(TOPIC, partitions=[place.partition], timestamp_ms=FIRST_MS + number, max_records=1))
    took = time.perf_counter() - begin
    if first.offset != place.offset:
        raise DemoFailed(f"the time of order {number} is found at offset {first.offset}, not {place.offset}")
    findings.add("the same by its time", f"offset {first.offset:,} in {took * 1000:.1f} ms")


def _compact(progress: Progress, bus: Bus, findings: Findings) -> None:
    """Keep the newest order of each customer, in a copy of the topic with small segments."""
    task = progress.add_task("compact by customer", total=20_000)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "65536", "min.cleanable.dirty.ratio": "0.01"}
    bus.create_topic("newest", partitions=1, config=settings)
    for number in range(20_000):
        key, value = make_order(number)
        bus.send("newest", value, key=key, timestamp_ms=FIRST_MS + number)
        if number % 500 == 0:
            bus.flush(60)  # small batches: what is in the last segment is not compacted
            progress.update(task, completed=number)
    bus.flush(60)
    newest = {make_order(number)[0]: number for number in range(20_000)}
    left = 20_000
    deadline = time.monotonic() + COMPACTION_S
    while left > 6_000 and time.monotonic() < deadline:
        time.sleep(0.2)
        kept = list(bus.consume("newest", until_end=True))
        left = len(kept)
    progress.update(task, completed=20_000)
    if left > 6_000:
        raise DemoFailed(f"{left} of 20000 orders are left after {COMPACTION_S:.0f} s of compaction")
    if {str(message.key, "utf-8"): _check(message) for message in kept if message.key} != newest:
        raise DemoFailed("compaction changed the newest order of a customer")
    findings.add("compacted by customer", f"20,000 orders to {left:,}; the newest of each of 1,000 customers is kept")


def _truncate(bus: Bus, findings: Findings) -> None:
    details = bus.describe_topic(TOPIC)
    middle = details.partitions[0].end_offset // 2
    starts = bus.truncate(TOPIC, 0, before=middle)
    first = next(bus.consume(TOPIC, partitions=[0], max_records=1))
    if starts[0] != middle or first.offset != middle:
        raise DemoFailed(f"records before {middle} were deleted, but {TOPIC}-0 begins at {first.offset}")
    findings.add("records before the middle deleted", f"{TOPIC}-0 begins at {middle:,}")


def _check(message: Message) -> int:
    """The number of the order in a record, which must be exactly as it was sent."""
    assert message.value is not None
    assert message.key is not None
    number = int(json.loads(message.value)["order"])
    key, value = make_order(number)
    if (message.key, message.value, message.timestamp_ms) != (key.encode(), value.encode(), FIRST_MS + number):
        raise DemoFailed(f"order {number} at {message.partition}/{message.offset} is not what was written")
    return number
