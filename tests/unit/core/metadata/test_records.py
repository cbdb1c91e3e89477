"""Metadata records as bytes, and commits as batches."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidMetadata
from barnabas.core.metadata.commits import MAX_BATCH_BYTES, CommitReader, encode_commit
from barnabas.core.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from barnabas.core.records.batch import BatchHeader, iter_batches, read_header
from barnabas.core.records.record import Record, encode_batch
from tests.unit.core.metadata.strategies import histories


@given(histories())
def test_every_record_is_read_back_as_it_was_written(records: list[MetadataRecord]) -> None:
    assert [decode_record(encode_record(record)) for record in records] == records


def test_a_partition_takes_few_bytes() -> None:
    record = PartitionRecord(UUID(int=1), 3999, (1, 2, 3), (1, 2, 3), 1, 0, 0)

    assert len(encode_record(record)) < 40


@given(st.binary(max_size=60))
def test_bad_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    try:
        decode_record(data)
    except InvalidMetadata:
        return
    assert encode_record(decode_record(data))


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc0", b"\x91\x63", b"\x92\x02\xa1a", encode_record(TopicRecord("a", UUID(int=1))) + b"\0"],
    ids=["empty", "null", "unknown type", "too few fields", "a byte too many"],
)
def test_what_is_no_known_record_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidMetadata, match="not a metadata record"):
        decode_record(data)


def test_a_field_that_a_newer_version_appended_is_no_obstacle() -> None:
    record = TopicRecord("a", UUID(int=1))
    longer = b"\x94" + encode_record(record)[1:] + b"\x05"

    assert decode_record(longer) == record


def commit_of(size: int) -> list[MetadataRecord]:
    return [ConfigRecord(2, "topic", f"name{index}", "v" * 1000) for index in range(size)]


Batch = tuple[bytes, BatchHeader]


def log_of(*commits: list[MetadataRecord], leader_epoch: int = 1, start_offset: int = 0) -> list[Batch]:
    """The batches that commits make, with the offsets and the epoch that a log would give them."""
    batches, offset = [], start_offset
    for commit in commits:
        data = encode_commit(commit, timestamp_ms=5)
        for position, header in iter_batches(data):
            placed = header._replace(base_offset=offset, leader_epoch=leader_epoch)
            batches.append((bytes(data[position : position + header.size]), placed))
            offset = placed.next_offset
    return batches


def control_batch(offset: int, *, leader_epoch: int) -> Batch:
    """What a leader writes first, as the metadata log of Kafka has it: a record whose key says LeaderChange."""
    data = bytes(encode_batch([Record(offset, 5, b"\0\0\0\2", b"\0\0")], is_control=True, leader_epoch=leader_epoch))
    return data, read_header(data)


def read_all(reader: CommitReader, batches: list[Batch]) -> list[list[MetadataRecord]]:
    return [list(commit) for data, header in batches for commit in reader.read(data, header)]


def record_counts(batches: list[Batch]) -> list[int]:
    return [header.record_count for _, header in batches]


def test_a_small_commit_is_one_batch() -> None:
    assert len(log_of(commit_of(10))) == 1


def test_a_large_commit_is_several_batches_below_the_limit() -> None:
    data = encode_commit(commit_of(2000), timestamp_ms=5)

    sizes = [header.size for _, header in iter_batches(data)]

    assert len(sizes) > sum(sizes) // MAX_BATCH_BYTES
    assert max(sizes) <= MAX_BATCH_BYTES


def test_one_record_over_the_limit_is_a_batch_of_its_own() -> None:
    large: list[MetadataRecord] = [ConfigRecord(2, "t", "n", "v" * MAX_BATCH_BYTES)]

    assert record_counts(log_of(commit_of(1) + large + commit_of(1))) == [1, 1, 1]


def test_a_reader_gives_whole_commits() -> None:
    commits = [commit_of(3), commit_of(1200), commit_of(1)]
    reader = CommitReader()

    read = read_all(reader, log_of(*commits))

    assert read == commits
    assert reader.unfinished_at is None


def test_a_reader_gives_nothing_of_a_commit_without_its_end_and_says_where_it_began() -> None:
    batches = log_of(commit_of(3), commit_of(1200))
    reader = CommitReader()

    read = read_all(reader, batches[:-1])

    assert len(read) == 1
    assert reader.unfinished_at == 3


def test_a_commit_that_another_leader_epoch_cuts_off_is_dropped_and_not_glued_to_the_next() -> None:
    lost = log_of(commit_of(1200), leader_epoch=1)[:-1]
    end_offset = lost[-1][1].next_offset
    reader = CommitReader()

    read = read_all(reader, [*lost, *log_of(commit_of(3), commit_of(1200), leader_epoch=2, start_offset=end_offset)])

    assert read == [commit_of(3), commit_of(1200)]
    assert (reader.dropped, reader.unfinished_at) == ([0], None)


def test_the_first_batch_of_a_leader_epoch_drops_what_the_last_one_left_even_if_it_is_a_control_batch() -> None:
    lost = log_of(commit_of(1200), leader_epoch=1)[:-1]
    reader = CommitReader()

    assert read_all(reader, [*lost, control_batch(lost[-1][1].next_offset, leader_epoch=2)]) == []

    assert (reader.dropped, reader.unfinished_at) == ([0], None)


def test_control_batches_are_passed_over_and_break_no_commit_of_their_own_epoch() -> None:
    batches = log_of(commit_of(1200), leader_epoch=1, start_offset=1)
    reader = CommitReader()

    read = read_all(
        reader, [control_batch(0, leader_epoch=1), *batches[:1], control_batch(900, leader_epoch=1), *batches[1:]]
    )

    assert read == [commit_of(1200)]
    assert (reader.dropped, reader.unfinished_at) == ([], None)


def test_a_record_without_a_value_is_refused() -> None:
    data = bytes(encode_batch([Record(4, 0, None, None)]))
    with pytest.raises(InvalidMetadata, match="offset 4"):
        list(CommitReader().read(data, read_header(data)))
