"""The transaction index: Kafka's 34 bytes an entry."""

import pytest

from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.txn_index import ENTRY_SIZE, AbortedTransaction, encode_aborted, parse_aborted

FIRST = AbortedTransaction(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=12)
SECOND = AbortedTransaction(producer_id=0x0102030405060708, first_offset=5, last_offset=30, last_stable_offset=31)
# Version, producer id, first offset, last offset, last stable offset: AbortedTxn of Kafka's message definitions.
FIRST_BYTES = "0000 0000000000000007 000000000000000a 0000000000000014 000000000000000c"
SECOND_BYTES = "0000 0102030405060708 0000000000000005 000000000000001e 000000000000001f"


def test_an_entry_has_34_bytes_in_kafka_s_order() -> None:
    assert ENTRY_SIZE == 34
    assert encode_aborted([FIRST, SECOND]) == bytes.fromhex(FIRST_BYTES + SECOND_BYTES)


def test_the_file_is_read_back() -> None:
    assert parse_aborted(bytes.fromhex(FIRST_BYTES + SECOND_BYTES)) == [FIRST, SECOND]
    assert parse_aborted(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        FIRST_BYTES + "0000",
        FIRST_BYTES + FIRST_BYTES,
        SECOND_BYTES + FIRST_BYTES,
        "0001" + FIRST_BYTES[4:],
        FIRST_BYTES + "00" * ENTRY_SIZE,
        "0000 0000000000000007 ffffffffffffffff 0000000000000014 000000000000000c",
        "0000 0000000000000007 0000000000000014 0000000000000014 000000000000000c",
    ],
)
def test_entries_that_cannot_be_right_are_refused(data: str) -> None:
    with pytest.raises(DamagedIndex):
        parse_aborted(bytes.fromhex(data))
