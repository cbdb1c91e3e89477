"""A topic as Arrow columns: batches come from the brokers as bytes and become columns natively.

Owns the columns a caller sees: `partition`, then those of `core.records.columnar`.

Needs the extra `arrow`. Reads committed records by default: those of aborted and open transactions are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.fetcher import EARLIEST, LATEST, Fetcher
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.core.errors import OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.records import columnar

try:
    import pyarrow as pa
except ImportError as error:  # columnar has said so already
    raise ImportError("reading Arrow needs pyarrow and numba: pip install 'barnabas[arrow]'") from error

_PARTITION: Final = pa.field("partition", pa.int32(), nullable=False)
SCHEMA: Final = pa.schema([_PARTITION, *columnar.SCHEMA])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read."""

    topic: str
    partitions: Sequence[int] | None
    start: Any
    end: int | Mapping[int, int] | None
    isolation: Isolation


def read_arrow(settings: Settings, wanted: Wanted, columns: Sequence[str] | None) -> Any:
    """A `pyarrow.RecordBatchReader`: iterate over its batches, or `read_all()` for one table."""
    names = _checked_columns(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, _read(settings, wanted, names))


def _checked_columns(columns: Sequence[str] | None) -> list[str]:
    names = SCHEMA.names if columns is None else list(columns)
    if not names or len(set(names)) < len(names) or any(name not in SCHEMA.names for name in names):
        raise ValueError(f"columns {names}: pick each at most once from {SCHEMA.names}")
    return names


def _read(settings: Settings, wanted: Wanted, names: list[str]) -> Iterator[Any]:
    """Check the topic now, so that unknown topics and partitions are refused now; read as batches are requested."""
    topic, partitions = wanted.topic, wanted.partitions
    fetcher = Fetcher(settings, topic, committed=wanted.isolation == READ_COMMITTED)
    try:
        ids = fetcher.partition_ids()
        missing = sorted(set(partitions or ()) - set(ids))
        if missing:
            raise UnknownTopicOrPartition(f"topic {topic!r} has partitions 0..{len(ids) - 1}, not {missing[0]}")
        ids = ids if partitions is None else sorted(set(partitions))
        latest = fetcher.offsets(ids, LATEST)
        earliest = fetcher.offsets(ids, EARLIEST)
        ranges = _ranges(wanted.start, wanted.end, earliest, latest)
    finally:
        fetcher.close()  # nothing stays open until the first batch is asked for
    return _decoded(fetcher, ranges, names)


def _ranges(
    start: Any, end: int | Mapping[int, int] | None, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """First and end offset per partition; the end is never beyond the current end of the log."""
    ranges = {
        id_: (_bound(start, id_, earliest, latest, earliest[id_]), min(_bound(end, id_, earliest, latest, last), last))
        for id_, last in latest.items()
    }
    for id_, (first, _) in ranges.items():
        if first < earliest[id_]:
            raise OffsetOutOfRange(f"partition {id_} begins at offset {earliest[id_]}; {first} is before it")
    return ranges


def _bound(wanted: Any, id_: int, earliest: Mapping[int, int], latest: Mapping[int, int], default: int) -> int:
    if isinstance(wanted, Mapping):
        return int(wanted.get(id_, default))
    named = {"earliest": earliest[id_], "latest": latest[id_], None: default}
    if wanted in named:
        return named[wanted]
    if isinstance(wanted, int):
        return wanted
    raise ValueError(f"{wanted!r} is not 'earliest', 'latest', a number or {{partition: number}}")


def _decoded(fetcher: Fetcher, ranges: dict[int, tuple[int, int]], names: list[str]) -> Iterator[Any]:
    of_records = [name for name in names if name != _PARTITION.name]
    try:
        for fetched in fetcher.read(ranges):
            start, end = ranges[fetched.partition]
            batch = columnar.decode_arrow(
                fetched.records,
                start_offset=start,
                end_offset=end,
                columns=of_records or ["offset"],  # something must say how many rows there are
                aborted=fetched.aborted,
                verify_crc=False,  # the fetcher did
            )
            if len(batch):
                yield _with_partition(batch, fetched.partition, names)
    finally:
        fetcher.close()


def _with_partition(batch: Any, partition: int, names: list[str]) -> Any:
    arrays = [
        pa.repeat(pa.scalar(partition, pa.int32()), len(batch)) if name == _PARTITION.name else batch.column(name)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))
