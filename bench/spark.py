"""The Spark connector: reading to nothing, to a count and to Parquet, as a stream, and writing; Spark's own beside it.

Spark's own Kafka connector is a JAR. It is measured in the same run where Maven can fetch it, or where
BENCH_KAFKA_JARS names the JARs, separated by commas; otherwise those columns stay empty.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.maven import kafka_jars
from bench.measure import Row, compare_rounds, rate, scratch_directory, seconds
from bench.served import Served, served
from bench.spark_scale import ScaleBench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
OURS, THEIRS = "barnabas", "kafka"
SIZES = {100: 2_000_000, 1_000: 400_000}
LATENCY_S = 8.0
PARTITIONS = 4_000
QUERIES = 20
IDLE_S = 12.0


def rows(*, quick: bool) -> Iterator[Row]:
    from barnabas.spark import session  # noqa: PLC0415 - an extra

    scale = 50 if quick else 1
    jars = kafka_jars()
    spark = session("bench", settings={"spark.jars": ",".join(map(str, jars))} if jars else {})
    try:
        with served("log.flush.policy=os", "num.partitions=4") as broker, scratch_directory() as scratch:
            measured = _Bench(spark, broker, scratch, has_peer=bool(jars))
            for size, count in SIZES.items():
                yield from measured.read_rows(size, count // scale)
            yield from measured.write_rows(400_000 // scale)
            yield measured.latency_row(LATENCY_S / (4 if quick else 1))
            at_scale = ScaleBench(spark, broker.bootstrap, scratch, has_peer=bool(jars))
            yield at_scale.partitions_row(PARTITIONS // scale, batches=2 if quick else 7)
            yield at_scale.idle_row(QUERIES // (4 if quick else 1), for_s=IDLE_S / (4 if quick else 1))
    finally:
        spark.stop()


class _Bench:
    """One session, one broker."""

    def __init__(self, spark: "SparkSession", broker: Served, scratch: Path, *, has_peer: bool) -> None:
        self._spark = spark
        self._bootstrap = broker.bootstrap
        self._scratch = scratch
        self._has_peer = has_peer
        self._number = 0

    def read_rows(self, size: int, count: int) -> Iterator[Row]:
        topic = f"read-{size}"
        _fill(self._bootstrap, topic, count, size)
        targets: dict[str, Callable[[DataFrame], object]] = {
            "noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
            "count": lambda frame: frame.count(),
            "Parquet": lambda frame: frame.write.mode("overwrite").parquet(str(self._scratch / "parquet")),
        }
        for name, consume in targets.items():
            yield self._row(
                f"batch read, {size} B, to {name}",
                count,
                lambda format_: consume(self._read(format_, topic)),  # noqa: B023
            )
        yield self._row(
            f"stream read, available now, {size} B, to noop", count, lambda format_: self._stream(format_, topic)
        )

    def _read(self, format_: str, topic: str) -> "DataFrame":
        frame: DataFrame = self._with_options(self._spark.read.format(format_), topic).load()
        return frame

    def _stream(self, format_: str, topic: str) -> None:
        frame = self._with_options(self._spark.readStream.format(format_), topic).load()
        self._run(frame.writeStream.format("noop"))

    def _with_options(self, reader: Any, topic: str) -> Any:
        options = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return reader.options(**options)

    def _run(self, writer: Any) -> None:
        self._number += 1
        checkpoint = str(self._scratch / f"checkpoint-{self._number}")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    def write_rows(self, count: int) -> Iterator[Row]:
        source = str(self._scratch / "source")
        frame = self._spark.range(0, count, 1, 4).selectExpr(
            "cast(id as string) as key", "lpad(cast(id as string), 100, 'x') as value"
        )
        frame.write.mode("overwrite").parquet(source)
        options = {"kafka.bootstrap.servers": self._bootstrap}

        def write(format_: str, **more: str) -> None:
            self._number += 1
            rows_ = self._spark.read.parquet(source)
            rows_.write.format(format_).options(**options, topic=f"written-{self._number}", **more).mode(
                "append"
            ).save()

        yield self._row("batch write, 100 B, exactly once (Kafka's: at least once)", count, write)
        yield self._row(
            "batch write, 100 B, at least once",
            count,
            lambda format_: write(format_, **({"exactlyOnce": "false"} if format_ == OURS else {})),
        )

    def _row(self, name: str, count: int, work: Callable[[str], object]) -> Row:
        work(OURS)  # starts the workers
        problem = self._try_peer(work)
        if problem:
            took = statistics.median(seconds(lambda: work(OURS)) for _ in range(ROUNDS))
            return Row(name, rate(count / took, "rows/s"), problem)

        def one_round() -> tuple[float, float]:
            return seconds(lambda: work(OURS)), seconds(lambda: work(THEIRS))

        compared = compare_rounds(one_round, amount=count, rounds=ROUNDS)
        return Row(name, rate(compared.ours, "rows/s"), f"Spark's own {rate(compared.limit, 'rows/s')}", compared.ratio)

    def _try_peer(self, work: Callable[[str], object]) -> str:
        """Have Spark's own do it once; why it cannot, or nothing."""
        if not self._has_peer:
            return "Spark's own cannot be had here"
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

        try:
            work(THEIRS)
        except PySparkException:
            return "Spark's own failed on this version of Spark"
        return ""

    def latency_row(self, for_s: float) -> Row:
        """How long a micro-batch takes when little comes."""
        self._micro_batches(OURS, for_s)  # Java compiles what it has run for a while
        problem = self._try_peer(lambda format_: self._micro_batches(format_, for_s))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            ours += self._micro_batches(OURS, for_s)
            if not problem:
                theirs += self._micro_batches(THEIRS, for_s)
        name = "a micro-batch at 100 records/s, to noop"
        if problem:
            return Row(name, _quantiles(ours), problem)
        ratio = statistics.median(theirs) / statistics.median(ours)
        return Row(name, _quantiles(ours), f"Spark's own {_quantiles(theirs)}", ratio)

    def _micro_batches(self, format_: str, for_s: float) -> list[float]:
        topic = f"latency-{self._number}"
        _fill(self._bootstrap, topic, 4, 100)
        frame = self._with_options(self._spark.readStream.format(format_), topic).load()
        self._number += 1
        checkpoint = str(self._scratch / f"checkpoint-{self._number}")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        end = time.monotonic() + for_s
        while time.monotonic() < end and query.isActive:
            _fill(self._bootstrap, topic, 10, 100)
            time.sleep(0.1)
        query.processAllAvailable()  # raises what stopped it
        took = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        query.stop()
        return took[2:]


def _quantiles(took_ms: list[float]) -> str:
    quantiles = statistics.quantiles(took_ms, n=100)
    return f"p50 {quantiles[49]:,.0f} ms, p99 {quantiles[98]:,.0f} ms"


def _fill(bootstrap: str, topic: str, count: int, size: int) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    value = b"v" * size
    for number in range(count):
        producer.produce(topic, value, key=b"%d" % number, partition=number % 4)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be filled")
