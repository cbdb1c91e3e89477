"""The third act of the demo: a pipeline on Spark, while orders stream in.

Orders are checked, and the broken ones go to dead letters; revenue by country and window goes to a topic; every good
order goes to a Delta table. All three are exactly once, so at the end each sum must be the producer's own.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from barnabas.cli.demo.findings import DemoFailed, Findings
from barnabas.cli.demo.order_stream import OrderStream
from barnabas.cli.demo.process import BrokerProcess
from barnabas.client import Bus
from barnabas.spark import Pipeline

ORDERS, REVENUE, DEAD, GROUP, ARCHIVE = "orders", "revenue", "orders.dead", "orders-pipeline", "orders"
PATIENCE_S: Final = 120.0
SHOWN_EVERY_S: Final = 0.25
WARM_UP: Final = 200


def show(console: Console, directory: Path, *, seconds: float, rate: int, seed: int) -> None:
    """Run the act and print its table; raise `DemoFailed` if a check fails."""
    findings = Findings()
    broker = BrokerProcess(directory / "broker")
    try:
        broker.start()
        with Bus(broker.bootstrap) as bus:
            _run(console, bus, directory, OrderStream(bus, ORDERS, seconds=seconds, rate=rate, seed=seed), findings)
    finally:
        broker.stop()
    console.print(findings.table("Barnabas: a pipeline on Spark, exactly once"))


def describe(bootstrap: str, directory: Path) -> dict[str, Any]:
    """The pipeline, as its YAML file would define it."""
    return {
        "name": "orders",
        "bootstrap": bootstrap,
        "checkpoint": str(directory / "checkpoint"),
        "dead_letters": DEAD,
        "sources": [
            {
                "type": "topic",
                "name": "orders",
                "topic": ORDERS,
                "group": GROUP,
                "parse": {
                    "format": "json",
                    "schema": "`order` long, country string, cents long, at timestamp",
                    "checks": ["cents >= 0", "country is not null"],
                },
                "watermark": {"column": "at", "delay": "10 minutes"},
            }
        ],
        "steps": [
            {
                "name": "revenue",
                "sql": "select window(at, '10 seconds').start as since, country, sum(cents) as cents, "
                "max(at) as newest from orders group by window(at, '10 seconds'), country",
            }
        ],
        "sinks": [
            {
                "type": "topic",
                "name": "revenue",
                "from": "revenue",
                "topic": REVENUE,
                "mode": "update",
                "key": "concat(country, ' ', cast(since as string))",
                "value": "to_json(struct(country, cents, unix_millis(newest) as newest_ms))",
            },
            {"type": "delta", "name": "archive", "from": "orders", "path": str(directory / ARCHIVE)},
        ],
        "trigger": "continuous",
    }


def _run(console: Console, bus: Bus, directory: Path, stream: OrderStream, findings: Findings) -> None:
    for topic, partitions in ((ORDERS, 3), (REVENUE, 1), (DEAD, 1)):
        bus.create_topic(topic, partitions=partitions)
    console.print("starting Spark ...")
    begin = time.perf_counter()
    pipeline = Pipeline.from_dict(describe(bus.bootstrap, directory))
    with _java_writes_to(directory / "spark.log"):
        running = pipeline.start()
    with running, _watching_revenue(bus) as revenue:
        stream.send_first(WARM_UP)
        _wait_for(stream, revenue)
        findings.add("Spark started, first orders through", f"{time.perf_counter() - begin:.1f} s")
        revenue.latencies_ms.clear()
        stream.start()
        _wait(console, directory, stream, revenue)
    _check(bus, directory, stream, revenue, findings)


@contextmanager
def _java_writes_to(path: Path) -> Iterator[None]:
    """A JVM that is started in this context writes its standard error to this file."""
    sys.stderr.flush()
    ours = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


class Revenue:
    """The contents of the revenue topic, read as they arrive."""

    def __init__(self) -> None:
        self.newest: dict[bytes, tuple[str, int]] = {}  # by window and country
        self.latencies_ms: list[float] = []
        self.failure: Exception | None = None

    def note(self, key: bytes, value: bytes) -> None:
        found = json.loads(value)
        self.newest[key] = (found["country"], found["cents"])
        self.latencies_ms.append(time.time() * 1000 - found["newest_ms"])

    def by_country(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for country, cents in list(self.newest.values()):
            total[country] += cents
        return total


@contextmanager
def _watching_revenue(bus: Bus) -> Iterator[Revenue]:
    revenue, stop = Revenue(), threading.Event()

    def watch() -> None:
        next_offset = 0
        try:
            while not stop.is_set():
                for message in bus.consume(REVENUE, partitions=[0], offset=next_offset, timeout=1.0):
                    revenue.note(message.key or b"", message.value or b"{}")
                    next_offset = message.offset + 1
        except Exception as error:  # shown when the sums are compared
            revenue.failure = error

    thread = threading.Thread(target=watch, name="revenue", daemon=True)
    thread.start()
    try:
        yield revenue
    finally:
        stop.set()
        thread.join(10)


def _wait_for(stream: OrderStream, revenue: Revenue) -> None:
    """Return when the orders sent so far have arrived, or the pipeline has failed."""
    deadline = time.monotonic() + PATIENCE_S
    while revenue.by_country() != stream.cents and revenue.failure is None:
        if time.monotonic() > deadline:
            raise DemoFailed(f"no order came through the pipeline for {PATIENCE_S:.0f} s; see spark.log with --keep")
        time.sleep(SHOWN_EVERY_S)


def _wait(console: Console, directory: Path, stream: OrderStream, revenue: Revenue) -> None:
    """Show the progress until everything has arrived, or nothing has arrived for too long."""
    deadline = time.monotonic() + PATIENCE_S
    with Live(console=console, refresh_per_second=4) as live:
        while True:
            archived = _archived(directory)
            live.update(_progress(stream, revenue, archived))
            if stream.is_over:
                if archived == stream.good and revenue.by_country() == stream.cents:
                    return
                if stream.failure or revenue.failure or time.monotonic() > deadline:
                    return
            else:
                deadline = time.monotonic() + PATIENCE_S
            time.sleep(SHOWN_EVERY_S)


def _progress(stream: OrderStream, revenue: Revenue, archived: int) -> Table:
    table = Table("orders sent", "broken", "in the table", "windows of revenue", "latency, last", title="live")
    latency = f"{revenue.latencies_ms[-1]:,.0f} ms" if revenue.latencies_ms else ""
    table.add_row(
        f"{stream.sent:,} of {stream.total:,}",
        f"{stream.broken:,}",
        f"{archived:,}",
        f"{len(revenue.newest):,}",
        latency,
    )
    return table


def _archived(directory: Path) -> int:
    """The number of rows of the Delta table, according to its log."""
    from deltalake import DeltaTable

    path = directory / ARCHIVE
    if not (path / "_delta_log").exists():
        return 0
    return sum(DeltaTable(str(path)).get_add_actions(flatten=True)["num_records"].to_pylist())


def _check(bus: Bus, directory: Path, stream: OrderStream, revenue: Revenue, findings: Findings) -> None:
    """Compare the output with the input."""
    failure = stream.failure or revenue.failure
    if failure is not None:
        raise DemoFailed(f"the demo failed: {failure}")
    expected = stream.cents
    table = _table_by_country(directory)
    dead = sum(1 for _ in bus.consume(DEAD, until_end=True))
    consumed = sum(1 for _ in bus.consume(ORDERS, until_end=True))
    lag = sum(part.lag or 0 for part in bus.describe_group(f"{GROUP}.archive").partitions)
    found = {
        "orders produced, acknowledged on disk": (stream.sent, consumed),
        "good orders, rows in the Delta table": (stream.good, _archived(directory)),
        "broken orders, dead letters": (stream.broken, dead),
        "revenue in cents, summed up from the topic": (expected.total(), revenue.by_country().total()),
        "revenue in cents, summed up from the table": (expected.total(), table.total()),
    }
    for what, (wanted, is_there) in found.items():
        findings.add(what, f"{wanted:,}, {is_there:,}")
    findings.add("lag of the pipeline's group, in records", f"{lag:,}")
    quantiles = statistics.quantiles(revenue.latencies_ms, n=100)
    findings.add("newest order to revenue, p50, p99", f"{quantiles[49]:,.0f} ms, {quantiles[98]:,.0f} ms")
    wrong = [what for what, (wanted, is_there) in found.items() if wanted != is_there]
    if revenue.by_country() != expected or table != expected:
        wrong.append("revenue by country")
    if wrong:
        raise DemoFailed(f"these differ: {'; '.join(f'{what}: {found.get(what, table)}' for what in wrong)}")
    findings.add("revenue by country, three times the same", f"{len(expected)} countries")


def _table_by_country(directory: Path) -> Counter[str]:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    # Asked of Delta's own engine: a process that had it make Arrow datasets sometimes aborts at its end.
    table = QueryBuilder().register("orders", DeltaTable(str(directory / ARCHIVE)))
    sums = pa.table(table.execute("select country, sum(cents) as cents from orders group by country")).to_pylist()
    return Counter({row["country"]: row["cents"] for row in sums})
