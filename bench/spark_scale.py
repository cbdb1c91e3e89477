"""Streams at scale: a topic of thousands of partitions, and many queries in one session that have nothing to do."""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
OURS, THEIRS = "barnabas", "kafka"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_TRIGGER_S = 0.5


class ScaleBench:
    """One session, one broker."""

    def __init__(self, spark: "SparkSession", bootstrap: str, scratch: Path, *, has_peer: bool) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._scratch = scratch
        self._formats = [OURS, THEIRS] if has_peer else [OURS]
        self._number = 0

    def partitions_row(self, count: int, *, batches: int) -> Row:
        """How long a stream takes to find the ends of all partitions when a trigger fires."""
        topic = f"wide-{count}"
        self._create(topic, count)
        rounds = [
            {format_: self._latest_offset_ms(format_, topic, batches) for format_ in self._formats}
            for _ in range(ROUNDS)
        ]
        took = {format_: statistics.median(each[format_] for each in rounds) for format_ in self._formats}
        described = {format_: f"p50 {each:,.0f} ms" for format_, each in took.items()}
        return _row(f"latestOffset of {count:,} partitions", rounds, described)

    def idle_row(self, count: int, *, for_s: float) -> Row:
        """What queries cost that have nothing to read."""
        for number in range(count):
            self._create(f"idle-{number}", 1)
        used: dict[str, float] = {}
        described: dict[str, str] = {}
        for format_ in self._formats:
            with self._idle_queries(format_, count):
                time.sleep(for_s)  # they have been idle for a while then
                before, start = _cpu_s(), time.monotonic()
                time.sleep(for_s)
                after, elapsed = _cpu_s(), time.monotonic() - start
                pythons = sum(_is_python(pid) for pid in after) - 2  # this one, and the broker
            used[format_] = sum(after[pid] - before.get(pid, 0.0) for pid in after) / elapsed
            described[format_] = f"{used[format_]:.0%} of a core, {pythons} Python processes"
        return _row(f"{count} idle queries, the broker included", [used], described)

    def _latest_offset_ms(self, format_: str, topic: str, batches: int) -> float:
        with self._query(format_, topic, processingTime=f"{_TRIGGER_S} seconds") as query:
            found: list[float] = []
            while len(found) < batches + 2:
                self._send(topic)
                query.processAllAvailable()
                found = [each["durationMs"]["latestOffset"] for each in query.recentProgress if each["numInputRows"]]
        return statistics.median(found[2:])  # the first ones find connections and classes missing

    @contextmanager
    def _idle_queries(self, format_: str, count: int) -> Iterator[None]:
        with ExitStack() as queries:
            for number in range(count):
                query = queries.enter_context(self._query(format_, f"idle-{number}"))
                self._send(f"idle-{number}")
                query.processAllAvailable()
            yield

    @contextmanager
    def _query(self, format_: str, topic: str, **trigger: str) -> Iterator[Any]:
        self._number += 1
        options = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic, "startingOffsets": "latest"}
        writer = self._spark.readStream.format(format_).options(**options).load().writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(self._scratch / f"scale-{self._number}"))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        try:
            query.processAllAvailable()  # it has found where to begin
            yield query
        finally:
            query.stop()

    def _create(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - slow to load
        from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            created.result()
        self._send(topic, partitions)

    def _send(self, topic: str, partitions: int = 1) -> None:
        """A record into each of so many partitions."""
        from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

        producer = Producer({"bootstrap.servers": self._bootstrap})
        for partition in range(partitions):
            producer.produce(topic, b"v", partition=partition)
        if producer.flush(120):
            raise RuntimeError(f"{topic} could not be filled")


def _row(name: str, rounds: list[dict[str, float]], described: dict[str, str]) -> Row:
    """What was found in each round for both; less is better."""
    if THEIRS not in described:
        return Row(name, described[OURS], "Spark's own cannot be had here")
    ratio = statistics.median(each[THEIRS] / max(each[OURS], 1e-9) for each in rounds)
    return Row(name, described[OURS], f"Spark's own {described[THEIRS]}", ratio)


def _cpu_s() -> dict[int, float]:
    """Of this process and all that came of it, the seconds of a core that each has used."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: used[pid] for pid in ours if pid in used}


def _is_python(pid: int) -> bool:
    try:
        return b"python" in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False
