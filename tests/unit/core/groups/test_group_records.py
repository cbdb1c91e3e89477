"""Records of the coordinator log: round trips, compaction by key, and bytes that are none."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidGroupRecord
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    ClassicMember,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupEntry,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    TopicPartitions,
    decode,
    encode_key,
    encode_value,
    tombstone_of,
)

text = st.text(max_size=5)
maybe = st.none() | text
data = st.binary(max_size=5)
number = st.integers(-(2**63), 2**63 - 1)
names = st.lists(text, max_size=3).map(tuple)
partitions = st.lists(st.builds(TopicPartitions, st.uuids(), st.lists(number, max_size=3).map(tuple)), max_size=3).map(
    tuple
)
members = st.lists(st.builds(ClassicMember, text, maybe, text, text, number, number, data, data), max_size=3).map(tuple)
protocols = st.lists(st.builds(ClassicProtocol, text, data), max_size=3).map(tuple)
classic = st.none() | st.builds(ClassicMemberMetadata, number, protocols)
offsets_and_classic: st.SearchStrategy[GroupRecord] = st.one_of(
    st.builds(OffsetRecord, text, text, number, number, number, text, number, number, st.uuids()),
    st.builds(ClassicGroupRecord, text, text, number, maybe, maybe, number, members),
)
records: st.SearchStrategy[GroupRecord] = st.one_of(
    offsets_and_classic,
    st.builds(ConsumerGroupRecord, text, number, number),
    st.builds(ConsumerMemberRecord, text, text, maybe, maybe, text, text, names, maybe, number, maybe, classic),
    st.builds(ConsumerTargetEpochRecord, text, st.integers(1, 9), number),
    st.builds(ConsumerTargetMemberRecord, text, text, partitions),
    st.builds(ConsumerCurrentMemberRecord, text, text, number, number, number, partitions, partitions),
    st.builds(ConsumerRegexRecord, text, text, names, number, number),
)
entries: st.SearchStrategy[GroupEntry] = st.one_of(records, records.map(tombstone_of))


@given(entry=entries)
def test_an_entry_is_read_as_it_was_written(entry: GroupEntry) -> None:
    assert decode(encode_key(entry), encode_value(entry)) == entry


@given(record=records)
def test_a_tombstone_has_the_key_of_its_record_and_no_value(record: GroupRecord) -> None:
    tombstone = tombstone_of(record)
    assert encode_key(tombstone) == encode_key(record)
    assert encode_value(tombstone) is None
    assert tombstone.group == record.group


# Records of a consumer group have to fit each other: those are tried where they are made.
@given(entries=st.lists(offsets_and_classic | offsets_and_classic.map(tombstone_of), max_size=20))
def test_the_records_of_groups_make_equal_groups(entries: list[GroupEntry]) -> None:
    groups, again = Groups(), Groups()
    for entry in entries:
        groups.apply(entry)
    for record in groups.to_records():
        again.apply(record)
    assert again == groups


@given(key=st.binary(max_size=12), value=st.none() | st.binary(max_size=12))
def test_bytes_that_are_no_record_are_refused(key: bytes, value: bytes | None) -> None:
    try:
        entry = decode(key, value)
    except InvalidGroupRecord:
        return
    assert decode(encode_key(entry), encode_value(entry)) == entry


@pytest.mark.parametrize("spoil", ["", "91", "91a101", "c0", "dc0005"])
def test_a_value_that_does_not_fit_its_key_is_refused(spoil: str) -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(encode_key(OffsetRecord("g", "t", 0, 1)), bytes.fromhex(spoil))


def test_a_type_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(bytes.fromhex("920ea167"), b"\x90")


def test_values_of_before_a_field_was_added_are_read() -> None:
    short = b"\x91\x07"  # the offset alone
    assert decode(encode_key(OffsetRecord("g", "t", 0, 1)), short) == OffsetRecord("g", "t", 0, 7)


def test_the_bytes_of_an_offset_stay_as_they_are() -> None:
    record = OffsetRecord("g", "t", 3, 5, 2, "m", 1, -1, UUID(int=1))
    assert encode_key(record).hex() == "9401a167a17403"
    assert encode_value(record) == b"\x96\x05\x02\xa1m\x01\xff\xc4\x10" + bytes(15) + b"\x01"


def test_a_tombstone_of_what_is_not_there_changes_nothing() -> None:
    groups = Groups()
    for of, key in (
        (OffsetRecord, ("g", "t", 0)),
        (ClassicGroupRecord, ("g",)),
        (ConsumerMemberRecord, ("g", "m")),
    ):
        groups.apply(GroupTombstone(of, key))
    assert groups == Groups()


def test_a_group_with_members_is_read_back() -> None:
    member = ClassicMember("m1", "i1", "client", "/host", 60_000, 10_000, b"\0", b"\xff")
    record = ClassicGroupRecord("g", "consumer", 4, "range", "m1", 5, (member,))
    assert decode(encode_key(record), encode_value(record)) == record
