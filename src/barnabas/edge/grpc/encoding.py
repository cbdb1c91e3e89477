"""Records of a gRPC request as record batches: which partition each goes to, and the batches of each partition.

The key's hash is murmur2, as in Kafka's clients, so that a key has one partition whichever way it comes in. Pure and
possibly long: large requests are encoded on a thread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError, InvalidRecord, InvalidRequest, UnknownTopicOrPartition
from barnabas.core.records.batch import Codec, read_header, seal, write_header
from barnabas.core.records.murmur2 import partition_for_key
from barnabas.core.records.record import Record, encode_batch
from barnabas.v1 import bus_pb2

MAX_BATCH_BYTES: Final = 900_000
"""How large a batch is made, by the bytes of its records: a topic takes a megabyte unless it is set otherwise."""
MAX_RECORDS: Final = 10_000
"""Of one request: each has an outcome of its own in the answer, which takes the loop a microsecond."""
MANY_RECORDS: Final = 1_000
"""More are encoded on a thread."""
NO_PARTITION: Final = -1
_OVERHEAD: Final = 24  # lengths, deltas: an upper bound for most records

CODECS: Final = {
    bus_pb2.COMPRESSION_UNSPECIFIED: Codec.NONE,
    bus_pb2.COMPRESSION_NONE: Codec.NONE,
    bus_pb2.COMPRESSION_GZIP: Codec.GZIP,
    bus_pb2.COMPRESSION_SNAPPY: Codec.SNAPPY,
    bus_pb2.COMPRESSION_LZ4: Codec.LZ4,
    bus_pb2.COMPRESSION_ZSTD: Codec.ZSTD,
}


@dataclass(slots=True)
class NewBatch:
    """A batch for one partition, and which records of the request it has."""

    partition: int
    data: bytearray
    places: list[int]  # in the request

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Make it a batch of a producer."""
        header = read_header(self.data)._replace(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )
        write_header(self.data, 0, header)
        seal(self.data, 0, header.size)


def codec_of(compression: int) -> Codec:
    """The codec that a request names."""
    codec = CODECS.get(bus_pb2.Compression.ValueType(compression)) if compression in CODECS else None
    if codec is None:
        raise InvalidRequest(f"compression {compression} is unknown")
    return codec


class Chosen(NamedTuple):
    """The partition of each record of a request, or why it has none."""

    partitions: list[int]  # NO_PARTITION of those that are refused
    refused: dict[int, BarnabasError]  # by their places in the request


def choose_partitions(
    records: Sequence[bus_pb2.NewRecord], *, partition_count: int, turn: int, is_round_robin: bool
) -> Chosen:
    """The partition of each record. `turn` counts the requests: the same turn gives the same partitions.

    A record that cannot be written is refused by itself: the others of its request are none the worse for it.
    """
    chosen: list[int] = []
    refused: dict[int, BarnabasError] = {}
    for at, record in enumerate(records):
        refusal = _refusal(record, at, partition_count)
        if refusal is not None:
            refused[at] = refusal
            chosen.append(NO_PARTITION)
        elif record.HasField("partition"):
            chosen.append(record.partition)
        elif record.HasField("key"):
            chosen.append(partition_for_key(record.key, partition_count))
        elif is_round_robin:
            chosen.append((turn + at) % partition_count)
        else:
            chosen.append(turn % partition_count)
    return Chosen(chosen, refused)


def _refusal(record: bus_pb2.NewRecord, at: int, partition_count: int) -> BarnabasError | None:
    if record.HasField("partition") and not 0 <= record.partition < partition_count:
        return UnknownTopicOrPartition(
            f"record {at} names partition {record.partition}; the topic has {partition_count}"
        )
    if record.timestamp_ms < 0:
        return InvalidRecord(f"record {at} has a timestamp of {record.timestamp_ms}, before 1970")
    return None


def encode_batches(
    records: Sequence[bus_pb2.NewRecord],
    partitions: Sequence[int],
    *,
    now_ms: int,
    codec: Codec,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    total_bytes: int | None = None,
) -> list[NewBatch]:
    """The batches of a request, those of each partition in the order of its records; those without one are left out.

    `total_bytes`: at most so many are in all the records; if that fits into one batch, nobody has to count.
    """
    fits = total_bytes is not None and total_bytes + len(records) * _OVERHEAD <= max_batch_bytes
    places: dict[int, list[int]] = {}
    for at, partition in enumerate(partitions):
        if partition != NO_PARTITION:
            places.setdefault(partition, []).append(at)
    return [
        _encode(records, partition, some, now_ms=now_ms, codec=codec)
        for partition, all_of_it in places.items()
        for some in ([all_of_it] if fits else _pieces(records, all_of_it, max_batch_bytes))
    ]


def _pieces(records: Sequence[bus_pb2.NewRecord], places: Iterable[int], max_batch_bytes: int) -> list[list[int]]:
    pieces: list[list[int]] = [[]]
    size = 0
    for at in places:
        more = size_of(records[at])
        if pieces[-1] and size + more > max_batch_bytes:
            pieces.append([])
            size = 0
        pieces[-1].append(at)
        size += more
    return pieces


def size_of(record: bus_pb2.NewRecord | bus_pb2.Record) -> int:
    """About how many bytes a record takes."""
    size = len(record.key) + len(record.value) + _OVERHEAD
    headers = record.headers
    return size + sum(len(each.key) + len(each.value) + 4 for each in headers) if headers else size


def _encode(
    records: Sequence[bus_pb2.NewRecord], partition: int, places: list[int], *, now_ms: int, codec: Codec
) -> NewBatch:
    made = [_record(records[at], offset=offset, now_ms=now_ms) for offset, at in enumerate(places)]
    return NewBatch(partition, encode_batch(made, codec=codec), places)


def _record(record: bus_pb2.NewRecord, *, offset: int, now_ms: int) -> Record:
    has, headers = record.HasField, record.headers
    return Record(
        offset,
        record.timestamp_ms if has("timestamp_ms") else now_ms,
        record.key if has("key") else None,
        record.value if has("value") else None,
        tuple((each.key, each.value if each.HasField("value") else None) for each in headers) if headers else (),
    )
