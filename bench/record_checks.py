"""What it costs to look at the records of produced batches: a topic that does so against one that does not, in turns.

One broker with both topics, flush.policy=os, acks=1, so that nothing else is waited for. The native client writes as
clients do; the raw one sends the same batch again and again, and costs so little itself that it shows the broker's
share alone.
"""

from collections.abc import Callable, Iterator

from barnabas.client import Bus
from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from bench import native_client
from bench.logs import make_records
from bench.measure import Row, compare, rate, seconds
from bench.raw_client import RawClient
from bench.served import Served, served

TARGET = 0.90
CHECKED, UNCHECKED = "checked", "unchecked"
TEXT = (b'{"order": %d, "customer": "c-%d", "amount": "%d.00 EUR", "items": ["a", "b", "c"], "state": "new"}',)


def rows(*, quick: bool) -> Iterator[Row]:
    scale = 20 if quick else 1
    with served("log.flush.policy=os", "log.retention.bytes=2000000000") as broker:
        with Bus(broker.bootstrap) as bus:
            bus.create_topic(CHECKED)
            bus.create_topic(UNCHECKED, config={"record.validation": "none"})
        _warm_up(broker)
        memory = broker.memory()
        yield Row("memory of the broker with the native check loaded", f"{memory / 1e6:,.0f} MB")
        yield from _native_rows(broker, scale=scale)
        client = RawClient(broker.bootstrap)
        yield _raw_row(client, "one record of 100 B", bytes(encode_batch(make_records(1))), 40_000 // scale)
        for codec, size in (
            (Codec.NONE, 16_000),
            (Codec.NONE, 1_000_000),
            (Codec.ZSTD, 16_000),
            (Codec.ZSTD, 1_000_000),
        ):
            name = f"{size // 1000} kB before compression, {codec.name.lower()}"
            yield _raw_row(client, name, _batch(size, codec), 300_000_000 // size // scale)
        client.close()


def _batch(size: int, codec: Codec) -> bytes:
    """A batch of JSON records of 100 bytes or so."""
    count = size // 110
    values = (TEXT[0] % (n, n * 7919 % 10_007, n * 31 % 997) for n in range(count))
    return bytes(encode_batch([Record(n, 0, None, value) for n, value in enumerate(values)], codec=codec))


def _warm_up(broker: Served) -> None:
    """Have the native check loaded, which takes a while, and see that it is."""
    client = RawClient(broker.bootstrap)
    before = broker.memory()
    batch = _batch(1_000_000, Codec.NONE)
    for _ in range(100):
        client.produce_pipelined(CHECKED, batch, count=10, in_flight=2)
        if broker.memory() > before + 60_000_000:
            break
    client.close()


def _native_rows(broker: Served, *, scale: int) -> Iterator[Row]:
    if native_client.build() is None:
        yield Row("produce with a native client", "no C compiler or no librdkafka here")
        return
    for codec, size, count in (
        ("none", 100, 2_000_000),
        ("none", 1000, 300_000),
        ("lz4", 100, 1_000_000),
        ("lz4", 1000, 200_000),
        ("zstd", 100, 1_000_000),
        ("zstd", 1000, 200_000),
        ("gzip", 100, 400_000),
    ):
        options = [] if codec == "none" else [codec]

        def run(topic: str, size: int = size, count: int = count // scale, options: list[str] = options) -> float:
            return native_client.run("produce", broker.bootstrap, topic, str(count), str(size), "1", *options)

        yield _row(f"produce {size} B, native client, {codec}, acks=1, os", run, count // scale, "records/s", TARGET)


def _raw_row(client: RawClient, name: str, batch: bytes, count: int) -> Row:
    def run(topic: str) -> float:
        return seconds(lambda: client.produce_pipelined(topic, batch, count=count, in_flight=8))

    return _row(f"the same batch again and again: {name}", run, count, "batches/s", None)


def _row(name: str, run: Callable[[str], float], amount: int, unit: str, target: float | None) -> Row:
    found = compare(lambda: run(CHECKED), lambda: run(UNCHECKED), amount=amount, rounds=5)
    return Row(name, rate(found.ours, unit), f"unchecked {rate(found.limit, unit)}", found.ratio, target)
