"""Compaction: records a second, natively against plain Python, syncs included. A tenth of the records stays."""

from collections.abc import Iterator
from pathlib import Path

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import encode_batch
from barnabas.storage.compaction.cleaner import CompactionResult
from barnabas.storage.compaction.key_map import Engine
from barnabas.storage.compaction.planning import plan_compaction
from barnabas.storage.compaction.swap import discard
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Log
from bench.logs import make_records, new_log
from bench.measure import Row, compare, rate, scratch_directory, seconds

CONFIG = LogConfig.from_properties({"cleanup.policy": "compact", "flush.policy": FlushPolicy.OS.value})
BATCH = 128
HASH_KEY = bytes(range(16))


def rows(*, quick: bool) -> Iterator[Row]:
    records = 50_000 if quick else 1_000_000
    for codec in (Codec.NONE, Codec.LZ4):
        with scratch_directory() as scratch:
            log = _filled(scratch, records, codec)
            suffix = "" if codec is Codec.NONE else f", {codec.name.lower()}"
            yield _row(f"compaction of {records:,} records{suffix}", log, records)


def _filled(scratch: Path, records: int, codec: Codec) -> Log:
    """A log of 100-byte values in which each key comes ten times, closed so that all of it can be compacted."""
    log = new_log(scratch, CONFIG)
    for start in range(0, records, BATCH):
        batch = make_records(min(BATCH, records - start), start=start, keys=records // 10)
        log.append(encode_batch(batch, codec=codec), leader_epoch=0, now_ms=0)
    log.roll()
    log.flush()
    return log


def _row(name: str, log: Log, records: int) -> Row:
    def run(engine: Engine) -> float:
        plan = plan_compaction(log, now_ms=2_000_000_000_000, hash_key=HASH_KEY, engine=engine, is_forced=True)
        assert plan is not None
        results: list[CompactionResult] = []
        took = seconds(lambda: results.append(plan.run()))
        discard(results.pop())
        return took

    run(Engine.NATIVE)  # loads or compiles what is native
    found = compare(lambda: run(Engine.NATIVE), lambda: run(Engine.PLAIN), amount=records, rounds=3)
    return Row(name, rate(found.ours, "records/s"), f"in plain Python {rate(found.limit, 'records/s')}", found.ratio)
