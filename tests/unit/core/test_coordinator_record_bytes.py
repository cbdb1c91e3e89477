"""Records of the coordinators' logs, byte for byte as Kafka 4.3.1 writes them: the bytes are from its own classes."""

from uuid import UUID

import pytest

from barnabas.core.groups import encoding as groups
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
    GroupRecord,
    OffsetRecord,
    TopicPartitions,
    tombstone_of,
)
from barnabas.core.transactions import encoding as transactions
from barnabas.core.transactions.records import State, TransactionRecord, TransactionTombstone

TOPIC_ID = UUID(int=2**64 + 2)
CLASSIC = ClassicGroupRecord(
    "g",
    "consumer",
    4,
    "range",
    "m1",
    5,
    (
        ClassicMember("m1", "i1", "client", "/host", 60_000, 10_000, b"\0\x01", b"\xff"),
        ClassicMember("m2", None, "client", "/host", 60_000, 10_000, b"", b""),
    ),
)
ASSIGNED = (TopicPartitions(TOPIC_ID, (0, 1)),)

GROUPS: dict[str, tuple[GroupRecord, str, str]] = {
    "offset": (
        OffsetRecord("grüße", "t", 3, 5, 2, "m", 1_700_000_000_000, -1, TOPIC_ID),
        "000100076772c3bcc39f6500017400000003",
        "0004000000000000000500000002026d0000018bcfe5680001001000000000000000010000000000000002",
    ),
    "offset without a topic id": (
        OffsetRecord("g", "t", 0, 5),
        "000100016700017400000000",
        "00040000000000000005ffffffff01ffffffffffffffff00",
    ),
    "offset with long metadata": (
        OffsetRecord("g", "t", 0, 5, -1, "x" * 200, 7),
        "000100016700017400000000",
        "00040000000000000005ffffffffc901" + "78" * 200 + "000000000000000700",
    ),
    "classic group": (
        CLASSIC,
        "0002000167",
        "00030008636f6e73756d657200000004000572616e676500026d3100000000000000050000000200026d3100026931"
        "0006636c69656e7400052f686f73740000ea600000271000000002000100000001ff00026d32ffff0006636c69656e74"
        "00052f686f73740000ea60000027100000000000000000",
    ),
    "empty classic group": (
        ClassicGroupRecord("g", "", 0, None, None, 5),
        "0002000167",
        "0003000000000000ffffffff000000000000000500000000",
    ),
    "consumer group": (
        ConsumerGroupRecord("g", 3, 77),
        "0003000167",
        "000000000003010008000000000000004d",
    ),
    "consumer group without a hash": (ConsumerGroupRecord("g", 3), "0003000167", "00000000000300"),
    "member": (
        ConsumerMemberRecord("g", "m", "i", None, "c", "/h", ("t", "u"), "t.*", 1000, "uniform"),
        "000500016700016d",
        "00000269000263032f68030274027504742e2a000003e808756e69666f726d00",
    ),
    "member of the classic protocol": (
        ConsumerMemberRecord(
            "g",
            "m",
            None,
            "r",
            "c",
            "/h",
            classic=ClassicMemberMetadata(45_000, (ClassicProtocol("range", b"\x01\x02\x03"),)),
        ),
        "000500016700016d",
        "00000002720263032f680100ffffffff00010012010000afc8020672616e6765040102030000",
    ),
    "target epoch": (
        ConsumerTargetEpochRecord("g", 3, 1_700_000_000_000),
        "0006000167",
        "0000000000030100080000018bcfe56800",
    ),
    "target epoch without a time": (ConsumerTargetEpochRecord("g", 3, 0), "0006000167", "00000000000300"),
    "target of a member": (
        ConsumerTargetMemberRecord("g", "m", (TopicPartitions(TOPIC_ID, (0, 1, 300)),)),
        "000700016700016d",
        "000002000000000000000100000000000000020400000000000000010000012c0000",
    ),
    "what a member has": (
        ConsumerCurrentMemberRecord("g", "m", 3, 2, 1, (), ASSIGNED),
        "000800016700016d",
        "00000000000300000002010102000000000000000100000000000000020300000000000000010000",
    ),
    "what a member has, with the epochs of each": (
        ConsumerCurrentMemberRecord("g", "m", 3, 2, 0, ASSIGNED, (), ((3, 3),)),
        "000800016700016d",
        "000000000003000000020002000000000000000100000000000000020300000000000000010100090300000003000000030100",
    ),
    "regular expression": (
        ConsumerRegexRecord("g", "t.*", ("t", "tt"), 4, 9),
        "00100001670003742e2a",
        "00000302740374740000000000000004000000000000000900",
    ),
}

# What Kafka may write and we do not.
READ_ONLY: dict[str, tuple[GroupRecord, str]] = {
    "offset, version 1": (
        OffsetRecord("g", "t", 0, 5, -1, "m", 7, 9),
        "0001000000000000000500016d00000000000000070000000000000009",
    ),
    "offset, version 3": (
        OffsetRecord("g", "t", 0, 5, 2, "m", 7),
        "000300000000000000050000000200016d0000000000000007",
    ),
    "classic group, version 4": (
        CLASSIC,
        "000409636f6e73756d6572000000040672616e6765036d31000000000000000503036d3103693107636c69656e74062f686f7374"
        "0000ea600000271003000102ff00036d320007636c69656e74062f686f73740000ea600000271001010000",
    ),
}

TRANSACTIONS: dict[str, tuple[TransactionRecord, str]] = {
    "ongoing": (
        TransactionRecord("x", 7, 3, 60_000, State.ONGOING, (("t", (0, 2)),), 1, 2),
        "0001000000000000000700030000ea6001020274030000000000000002000000000000000002000000000000000100",
    ),
    "with all tags": (
        TransactionRecord("x", 7, 3, 60_000, State.PREPARE_COMMIT, (("t", (0, 2)),), 1, 2, -1, 7, 8, 2),
        "0001000000000000000700030000ea6002020274030000000000000002000000000000000002000000000000000103"
        "000800000000000000070108000000000000000802020002",
    ),
    "empty": (
        TransactionRecord("x", 7, 3, 60_000, State.EMPTY, (), -1, 2),
        "0001000000000000000700030000ea6000000000000000000002ffffffffffffffff00",
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_written_and_read_as_by_kafka(name: str) -> None:
    record, key, value = GROUPS[name]
    assert groups.encode_key(record).hex() == key
    written = groups.encode_value(record)
    assert written is not None
    assert written.hex() == value
    assert groups.decode(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert groups.decode(bytes.fromhex(key), None) == tombstone_of(record)


@pytest.mark.parametrize("name", READ_ONLY)
def test_other_versions_of_kafka_are_read(name: str) -> None:
    record, value = READ_ONLY[name]
    assert groups.decode(groups.encode_key(record), bytes.fromhex(value)) == record


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_transactions_are_written_and_read_as_by_kafka(name: str) -> None:
    record, value = TRANSACTIONS[name]
    key = bytes.fromhex("0000000178")
    assert transactions.encode_key(record) == key
    written = transactions.encode_value(record)
    assert written is not None
    assert written.hex() == value
    assert transactions.decode(key, bytes.fromhex(value)) == record
    assert transactions.decode(key, None) == TransactionTombstone("x")


def test_transactions_of_kafkas_first_version_are_read() -> None:
    value = "0000000000000000000700030000ea60010000000100017400000002000000000000000200000000000000020000000000000001"
    record, _ = TRANSACTIONS["ongoing"]
    assert transactions.decode(bytes.fromhex("0000000178"), bytes.fromhex(value)) == record
