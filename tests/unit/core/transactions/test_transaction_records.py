"""Records of the transaction log: round trips, compaction by key, and bytes that are none."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidTransactionRecord
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.encoding import decode, encode_key, encode_value
from barnabas.core.transactions.records import (
    Owner,
    State,
    TransactionEntry,
    TransactionRecord,
    TransactionTombstone,
)
from barnabas.core.transactions.transactions import Transactions
from tests.support.old_logs import old_transaction_pair

text = st.text(max_size=5)
number = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
partitions = st.lists(st.tuples(text, st.lists(int32, max_size=3).map(tuple)), max_size=3).map(tuple)
records = st.builds(
    TransactionRecord,
    text,
    number,
    int16,
    int32,
    st.sampled_from(State),
    partitions,
    number,
    number,
    int16,
    number,
    number,
    int16,
)
entries: st.SearchStrategy[TransactionEntry] = st.one_of(records, st.builds(TransactionTombstone, text))
KEY = encode_key(TransactionTombstone("x"))
OLD_KEY = bytes.fromhex("9200a178")


@given(entry=entries)
def test_an_entry_is_read_as_it_was_written(entry: TransactionEntry) -> None:
    assert decode(encode_key(entry), encode_value(entry)) == entry


@given(record=records)
def test_a_tombstone_has_the_key_of_its_record_and_no_value(record: TransactionRecord) -> None:
    tombstone = TransactionTombstone(record.transactional_id)
    assert encode_key(tombstone) == encode_key(record)
    assert encode_value(tombstone) is None


@given(entries=st.lists(entries, max_size=20))
def test_the_records_of_transactions_make_equal_transactions(entries: list[TransactionEntry]) -> None:
    transactions, again = Transactions(), Transactions()
    for entry in entries:
        transactions.apply(entry)
    for record in transactions.to_records():
        again.apply(record)
    assert again == transactions


@given(key=st.binary(max_size=12) | st.sampled_from([KEY, OLD_KEY]), value=st.none() | st.binary(max_size=12))
def test_bytes_that_are_no_record_are_refused(key: bytes, value: bytes | None) -> None:
    try:
        entry = decode(key, value)
    except InvalidTransactionRecord:
        return
    assert decode(encode_key(entry), encode_value(entry)) == entry


@given(entry=entries)
def test_an_entry_of_an_earlier_version_is_read(entry: TransactionEntry) -> None:
    key, value = old_transaction_pair(entry)
    assert key[0] == 0x92
    assert encode_key(entry)[0] == 0
    assert decode(key, value) == entry


@given(record=records, data=st.data())
def test_a_value_that_is_cut_off_or_too_long_is_refused(record: TransactionRecord, data: st.DataObject) -> None:
    value = encode_value(record)
    assert value is not None
    cut = data.draw(st.integers(0, len(value) - 1))
    for wrong in (value[:cut], value + b"\0"):
        with pytest.raises(InvalidTransactionRecord):
            decode(KEY, wrong)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "92",
        "9201a178",
        "9300a17800",
        "9200",
        "920001",
        "9200a1",
        "9200a17800",
        "00",
        "0000",
        "0001000178",
        "000000017800",
    ],
)
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(InvalidTransactionRecord):
        decode(bytes.fromhex(key), None)


@pytest.mark.parametrize("value", ["", "90", "c0", "dc0004", "9401020306", "9401020305ff", "94a101020305"])
def test_an_old_value_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(InvalidTransactionRecord):
        decode(OLD_KEY, bytes.fromhex(value))


@pytest.mark.parametrize("start", ["0002", "ffff"])
def test_a_version_of_a_value_that_is_not_known_is_refused(start: str) -> None:
    value = encode_value(TransactionRecord("x", 7, 3, 9, State.EMPTY))
    assert value is not None
    with pytest.raises(InvalidTransactionRecord, match="unknown version"):
        decode(KEY, bytes.fromhex(start) + value[2:])


def test_the_bytes_of_a_record_stay_as_they_are() -> None:
    record = TransactionRecord("x", 7, 3, 9, State.PREPARE_ABORT, (("t", (0, 2)),), 1, 2, 2, 7, -1, 2)
    assert encode_key(record).hex(" ") == "00 00 00 01 78"
    value = encode_value(record)
    assert value is not None
    assert value == bytes.fromhex(
        "00 01 00 00 00 00 00 00 00 07 00 03 00 00 00 09 03 02 02 74 03 00 00 00 00 00 00 00 02 00"
        " 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 01"
        " 03 00 08 00 00 00 00 00 00 00 07 02 02 00 02 e8 07 02 00 02"
    )


def test_an_id_without_a_transaction_has_no_partitions_as_in_kafka() -> None:
    value = encode_value(TransactionRecord("x", 7, 3, 9, State.EMPTY))
    assert value is not None
    assert value[17] == 0  # null


def test_a_record_that_an_older_kafka_writes_is_read() -> None:
    value = bytes.fromhex("0000 0000000000000007 0003 00000009 01 00000001 0001 74 00000001 00000002") + bytes(16)
    record = TransactionRecord("x", 7, 3, 9, State.ONGOING, (("t", (2,)),), 0, 0)
    assert decode(KEY, value) == record
    empty = bytes.fromhex("0000 0000000000000007 0003 00000009 00 ffffffff") + bytes(16)
    assert decode(KEY, empty) == TransactionRecord("x", 7, 3, 9, State.EMPTY, (), 0, 0)


def test_old_values_of_before_a_field_was_added_are_read() -> None:
    assert decode(OLD_KEY, bytes.fromhex("9407030900")) == TransactionRecord("x", 7, 3, 9, State.EMPTY)


def test_fields_that_a_later_version_adds_are_left_out() -> None:
    record = TransactionRecord("x", 7, 3, 9, State.EMPTY)
    value = encode_value(record)
    assert value is not None
    assert value[-1] == 0
    assert decode(KEY, value[:-1] + bytes.fromhex("01 63 01 ff")) == record
    old = msgspec.msgpack.encode((*msgspec.structs.astuple(record)[1:], "new"))
    assert decode(OLD_KEY, old) == record


def test_a_tombstone_of_what_is_not_there_changes_nothing() -> None:
    transactions = Transactions()
    transactions.apply(TransactionTombstone("x"))
    assert transactions == Transactions()
    assert transactions.get("x") is None


def test_states_have_the_numbers_and_names_of_kafka() -> None:
    assert [(state.value, state.label) for state in State] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
    ]


def test_a_record_knows_its_partitions() -> None:
    record = TransactionRecord("x", 7, 3, 9, State.ONGOING, (("t", (0, 2)), ("u", (1,))))
    names = [TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)]
    assert list(record.partition_names()) == names
    assert record.has_partitions(names)
    assert record.has_partitions([])
    assert not record.has_partitions([TopicPartition("t", 0), TopicPartition("t", 1)])
    assert not record.has_partitions([TopicPartition("v", 0)])


def test_the_owner_of_an_id_whose_epochs_are_used_up_is_the_next_producer() -> None:
    record = TransactionRecord("x", 7, 3, 9, State.EMPTY)
    assert record.owner == Owner(7, 3)
    assert msgspec.structs.replace(record, next_producer_id=8).owner == Owner(8, 0)
