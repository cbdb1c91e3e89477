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
from barnabas.core.records.batch import iter_batches
from barnabas.core.records.record import Record, decode_batch
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
    with pytest.raises(InvalidMetadata, match="no metadata record"):
        decode_record(data)


def test_a_field_that_a_newer_version_appended_is_no_obstacle() -> None:
    record = TopicRecord("a", UUID(int=1))
    longer = b"\x94" + encode_record(record)[1:] + b"\x05"

    assert decode_record(longer) == record


def commit_of(size: int) -> list[MetadataRecord]:
    return [ConfigRecord(2, "topic", f"name{index}", "v" * 1000) for index in range(size)]


def log_of(*commits: list[MetadataRecord]) -> list[list[Record]]:
    """The batches that commits make, with the offsets that a log would give them."""
    batches, offset = [], 0
    for commit in commits:
        data = encode_commit(commit, timestamp_ms=5)
        for position, _ in iter_batches(data):
            records = decode_batch(data, position)
            batches.append([Record(offset + i, r.timestamp, r.key, r.value) for i, r in enumerate(records)])
            offset += len(records)
    return batches


def test_a_small_commit_is_one_batch() -> None:
    assert len(log_of(commit_of(10))) == 1


def test_a_large_commit_is_several_batches_below_the_limit() -> None:
    data = encode_commit(commit_of(2000), timestamp_ms=5)

    sizes = [header.size for _, header in iter_batches(data)]

    assert len(sizes) > sum(sizes) // MAX_BATCH_BYTES
    assert max(sizes) <= MAX_BATCH_BYTES


def test_one_record_over_the_limit_is_a_batch_of_its_own() -> None:
    large: list[MetadataRecord] = [ConfigRecord(2, "t", "n", "v" * MAX_BATCH_BYTES)]

    assert [len(batch) for batch in log_of(commit_of(1) + large + commit_of(1))] == [1, 1, 1]


def test_a_reader_gives_whole_commits() -> None:
    commits = [commit_of(3), commit_of(1200), commit_of(1)]
    reader = CommitReader()

    read = [list(commit) for batch in log_of(*commits) for commit in reader.read(batch)]

    assert read == commits
    assert reader.unfinished_at is None


def test_a_reader_gives_nothing_of_a_commit_without_its_end_and_says_where_it_began() -> None:
    batches = log_of(commit_of(3), commit_of(1200))
    reader = CommitReader()

    read = [commit for batch in batches[:-1] for commit in reader.read(batch)]

    assert len(read) == 1
    assert reader.unfinished_at == 3


def test_a_record_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match="offset 4"):
        list(CommitReader().read([Record(4, 0, None, None)]))
