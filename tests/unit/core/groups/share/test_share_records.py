"""The records of share groups and of their state, in Kafka's bytes."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidGroupRecord
from barnabas.core.groups import encoding
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import (
    GroupRecord,
    ShareCurrentMemberRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    StateTopic,
    TopicPartitions,
    tombstone_of,
)
from barnabas.core.groups.share import state_encoding
from barnabas.core.groups.share.partition import StateBatch
from barnabas.core.groups.share.persisted import (
    ShareKey,
    ShareStates,
    SnapshotRecord,
    StateTombstone,
    UpdateRecord,
    merge_batches,
)
from barnabas.core.groups.share.window import Persisted

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
KEY = ShareKey("g", TOPIC, 3)
HELD = (TopicPartitions(TOPIC, (0, 2)),)

GROUP_RECORDS: list[tuple[GroupRecord, str, str]] = [
    (
        ShareMemberRecord("g", "m", None, "c", "/h", ("t",)),
        "000a 0001 67 0001 6d",
        "0000 00 02 63 03 2f68 02 02 74 00",
    ),
    (ShareGroupRecord("g", 5, 7), "000b 0001 67", "0000 00000005 0000000000000007 00"),
    (ShareTargetEpochRecord("g", 5, 9), "000c 0001 67", "0000 00000005 01 00 08 0000000000000009"),
    (
        ShareTargetMemberRecord("g", "m", HELD),
        "000d 0001 67 0001 6d",
        f"0000 02 {TOPIC.hex} 03 00000000 00000002 00 00",
    ),
    (
        ShareCurrentMemberRecord("g", "m", 5, 4, 0, HELD),
        "000e 0001 67 0001 6d",
        f"0000 00000005 00000004 00 02 {TOPIC.hex} 03 00000000 00000002 00 00",
    ),
    (
        ShareStatesRecord("g", (), (StateTopic(TOPIC, "t", (1,)),), (StateTopic(UUID(int=1), "u"),)),
        "000f 0001 67",
        f"0000 01 02 {TOPIC.hex} 02 74 02 00000001 00 02 {UUID(int=1).hex} 02 75 00 00",
    ),
]
STATE_RECORDS = [
    (
        SnapshotRecord(KEY, 1, 2, 3, 40, 5, 6, 7, (StateBatch(41, 42, Persisted.ARCHIVED, 2),)),
        f"0000 0001 67 {TOPIC.hex} 00000003",
        "0000 00000001 00000002 00000003 0000000000000028 0000000000000006 0000000000000007"
        "02 0000000000000029 000000000000002a 04 0002 00 01 00 04 00000005",
    ),
    (
        UpdateRecord(KEY, 1, 3, 40, -1, ()),
        f"0001 0001 67 {TOPIC.hex} 00000003",
        "0000 00000001 00000003 0000000000000028 01 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GROUP_RECORDS, ids=lambda each: type(each).__name__)
def test_a_record_of_groups_has_kafkas_bytes(record: GroupRecord, key: str, value: str) -> None:
    data = bytes.fromhex(key), bytes.fromhex(value)
    assert (encoding.encode_key(record), encoding.encode_value(record)) == data
    assert encoding.decode(*data) == record
    assert encoding.decode(data[0], None) == tombstone_of(record)


@pytest.mark.parametrize(("record", "key", "value"), STATE_RECORDS, ids=lambda each: type(each).__name__)
def test_a_record_of_states_has_kafkas_bytes(record: SnapshotRecord | UpdateRecord, key: str, value: str) -> None:
    data = bytes.fromhex(key), bytes.fromhex(value)
    assert (state_encoding.encode_key(record), state_encoding.encode_value(record)) == data
    assert state_encoding.decode(*data) == record
    assert state_encoding.decode(data[0], None) == StateTombstone(KEY)


@pytest.mark.parametrize("value", [b"", b"\0\1", b"\0\0\0", b"\0\0" + b"\0" * 36 + b"\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_state_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidGroupRecord):
        state_encoding.decode(bytes.fromhex(f"0000 0001 67 {TOPIC.hex} 00000003"), value)


def test_the_records_of_a_share_group_make_it_again_and_its_tombstones_remove_it() -> None:
    groups = Groups()
    for record, _, _ in GROUP_RECORDS:
        groups.apply(record)
    again = Groups()
    for made in groups.to_records():
        again.apply(made)
    assert again == groups
    assert again.names() == ["g"]
    for tombstone in list(again.tombstones_of_group("g")):
        again.apply(tombstone)
    assert again == Groups()


BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from(Persisted),
        st.integers(0, 3),
    ),
    max_size=12,
)


@given(batches=BATCHES, start=st.integers(0, 20), random=st.randoms(use_true_random=False))
def test_of_batches_that_overlap_the_furthest_counts_in_any_order(
    batches: list[StateBatch], start: int, random: Random
) -> None:
    merged = merge_batches(batches, start)
    kept: dict[int, list[StateBatch]] = {}
    for each in batches:
        for offset in range(max(each.first, start), each.last + 1):
            kept.setdefault(offset, []).append(each)
    found = {offset: each for each in merged for offset in range(each.first, each.last + 1)}
    assert found.keys() == kept.keys()
    for offset, said in kept.items():
        is_open = all(each.state is Persisted.AVAILABLE for each in said)
        assert (found[offset].state is Persisted.AVAILABLE) == is_open
        if is_open:
            assert found[offset].delivery_count == max(each.delivery_count for each in said)
    random.shuffle(batches)
    assert [_told(each) for each in merge_batches(batches, start)] == [_told(each) for each in merged]
    assert sum(each.last - each.first + 1 for each in merged) == len(found)
    assert list(merged) == sorted(merged)


def _told(batch: StateBatch) -> tuple[int, int, int | None]:
    """All that matters of a batch: how a record was finished does not."""
    return batch.first, batch.last, batch.delivery_count if batch.state is Persisted.AVAILABLE else None


@given(batches=st.lists(BATCHES, max_size=6))
def test_a_snapshot_is_as_good_as_what_led_to_it(batches: list[list[StateBatch]]) -> None:
    states = ShareStates()
    states.apply(SnapshotRecord(KEY, 0, 0, 0, 0, 0, 0, 0, ()))
    for number, each in enumerate(batches):
        states.apply(UpdateRecord(KEY, 0, number, number, number, tuple(each)))
    again = ShareStates()
    for record in states.to_records():
        data = state_encoding.encode_value(record)
        entry = state_encoding.decode(state_encoding.encode_key(record), data)
        again.apply(entry)
    assert again.find(KEY) == states.find(KEY)
