"""Records of the coordinator log: round trips, compaction by key, and bytes that are none."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidGroupRecord, RecordTooLarge
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import (
    NO_TOPIC_ID,
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
    tombstone_of,
)
from tests.support.old_logs import old_group_pair

text = st.text(max_size=5)
maybe = st.none() | text
data = st.binary(max_size=5)
number = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int8 = st.integers(-128, 127)
ids = st.just(NO_TOPIC_ID) | st.uuids()
names = st.lists(text, max_size=3).map(tuple)
partitions = st.lists(st.builds(TopicPartitions, st.uuids(), st.lists(int32, max_size=3).map(tuple)), max_size=3).map(
    tuple
)
members = st.lists(st.builds(ClassicMember, text, maybe, text, text, int32, int32, data, data), max_size=3).map(tuple)
protocols = st.lists(st.builds(ClassicProtocol, text, data), max_size=3).map(tuple)
classic = st.none() | st.builds(ClassicMemberMetadata, int32, protocols)
offsets_and_classic: st.SearchStrategy[GroupRecord] = st.one_of(
    st.builds(OffsetRecord, text, text, int32, number, int32, text, number, number, ids),
    st.builds(ClassicGroupRecord, text, text, int32, maybe, maybe, number, members),
)


@st.composite
def epochs_of(draw: st.DrawFn, held: tuple[TopicPartitions, ...]) -> tuple[tuple[int, ...], ...]:
    """An epoch for each partition, or for none."""
    if draw(st.booleans()):
        return ()
    return tuple(tuple(draw(int32) for _ in each.partitions) for each in held)


@st.composite
def current_members(draw: st.DrawFn) -> ConsumerCurrentMemberRecord:
    assigned, pending = draw(partitions), draw(partitions)
    return ConsumerCurrentMemberRecord(
        draw(text),
        draw(text),
        draw(int32),
        draw(int32),
        draw(int8),
        assigned,
        pending,
        draw(epochs_of(assigned)),
        draw(epochs_of(pending)),
    )


currents = current_members()
records: st.SearchStrategy[GroupRecord] = st.one_of(
    offsets_and_classic,
    st.builds(ConsumerGroupRecord, text, int32, number),
    st.builds(ConsumerMemberRecord, text, text, maybe, maybe, text, text, names, maybe, int32, maybe, classic),
    st.builds(ConsumerTargetEpochRecord, text, st.integers(1, 9), number),
    st.builds(ConsumerTargetMemberRecord, text, text, partitions),
    currents,
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


@given(entry=entries)
def test_an_entry_of_an_earlier_version_is_read(entry: GroupEntry) -> None:
    key, value = old_group_pair(entry)
    assert key[0] >= 0x92
    assert encode_key(entry)[0] == 0
    assert decode(key, value) == entry


@given(record=records, data=st.data())
def test_a_value_that_is_cut_off_or_too_long_is_refused(record: GroupRecord, data: st.DataObject) -> None:
    key, value = encode_key(record), encode_value(record)
    assert value is not None
    cut = data.draw(st.integers(0, len(value) - 1))
    for wrong in (value[:cut], value + b"\0"):
        with pytest.raises(InvalidGroupRecord):
            decode(key, wrong)
    with pytest.raises(InvalidGroupRecord):
        decode(key + b"\0", value)


@pytest.mark.parametrize("spoil", ["", "91", "91a101", "c0", "dc0005"])
def test_an_old_value_that_does_not_fit_its_key_is_refused(spoil: str) -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(bytes.fromhex("9401a167a17400"), bytes.fromhex(spoil))


@pytest.mark.parametrize("key", ["920ea167", "000e000167", "0000000167", "ffff000167", "", "00"])
def test_a_type_that_is_not_known_is_refused(key: str) -> None:
    with pytest.raises(InvalidGroupRecord):
        decode(bytes.fromhex(key), b"\x90")


@pytest.mark.parametrize(("key", "value"), [("0001000167000174 00000000", "0005"), ("0002000167", "0005")])
def test_a_version_of_a_value_that_is_not_known_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidGroupRecord, match="unknown version 5 of a value"):
        decode(bytes.fromhex(key), bytes.fromhex(value))


def test_old_values_of_before_a_field_was_added_are_read() -> None:
    short = b"\x91\x07"  # the offset alone
    assert decode(bytes.fromhex("9401a167a17400"), short) == OffsetRecord("g", "t", 0, 7)


def test_the_bytes_of_an_offset_stay_as_they_are() -> None:
    record = OffsetRecord("g", "t", 3, 5, 2, "m", 1, -1, UUID(int=1))
    assert encode_key(record).hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 03"
    plain = encode_value(OffsetRecord("g", "t", 3, 5, 2, "m", 1))
    assert plain is not None
    assert plain.hex() == "0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000001" + "00"
    assert encode_value(record) == plain[:-1] + bytes.fromhex("010010") + bytes(15) + b"\x01"


@pytest.mark.parametrize(
    ("value", "record"),
    [
        # Versions 0 to 3 of Kafka: without a leader epoch, with an expiry, without it, with a leader epoch.
        ("0000 0000000000000005 0001 6d 0000000000000009", OffsetRecord("g", "t", 3, 5, -1, "m", 9)),
        ("0001 0000000000000005 0000 0000000000000009 0000000000000010", OffsetRecord("g", "t", 3, 5, -1, "", 9, 16)),
        ("0002 0000000000000005 0001 6d 0000000000000009", OffsetRecord("g", "t", 3, 5, -1, "m", 9)),
        ("0003 0000000000000005 00000002 0001 6d 0000000000000009", OffsetRecord("g", "t", 3, 5, 2, "m", 9)),
    ],
)
def test_offsets_that_older_kafkas_write_are_read(value: str, record: OffsetRecord) -> None:
    assert decode(encode_key(record), bytes.fromhex(value)) == record


def test_tags_that_are_not_known_are_left_out() -> None:
    record = OffsetRecord("g", "t", 3, 5, 2, "m", 1)
    value = encode_value(record)
    assert value is not None
    assert decode(encode_key(record), value[:-1] + bytes.fromhex("01 05 01 ff")) == record


def test_a_name_that_no_record_can_hold_is_refused_and_nothing_else() -> None:
    with pytest.raises(RecordTooLarge):
        encode_key(OffsetRecord("g" * 40_000, "t", 0, 1))


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
