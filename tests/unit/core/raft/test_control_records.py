"""Control records: written as Kafka reads them, and read back."""

from uuid import UUID

import pytest
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.voters_record.v0.data import VotersRecord
from kio.serial import entity_reader

from barnabas.core.errors import CorruptRecord
from barnabas.core.raft.control_records import decode_voters, describe_batch, encode_control, encode_voters
from barnabas.core.raft.log_view import BatchInfo
from barnabas.core.raft.output import ControlRecord, KRaftVersion, LeaderChange, Voters
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VotersAt, VoterSet
from barnabas.core.records.batch import read_header
from barnabas.core.records.record import Record, decode_batch, encode_batch

VOTERS = VoterSet.of(
    [
        Voter(
            ReplicaKey(1, UUID(int=11)),
            (VoterEndpoint("CONTROLLER", "one.example", 9093), VoterEndpoint("B", "::1", 65535)),
        ),
        Voter(ReplicaKey(2)),
    ]
)


def batch_of(*records: ControlRecord) -> bytearray:
    return encode_control(records, base_offset=40, epoch=3, timestamp_ms=1000)


def test_a_batch_of_control_records_has_its_place_its_epoch_and_a_type_in_each_key() -> None:
    batch = batch_of(LeaderChange(1, (1, 2), (1,)), KRaftVersion(1), Voters(VOTERS))
    header = read_header(batch)
    keys = [record.key for record in decode_batch(batch)]

    assert header.is_control
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (40, 43, 3)
    assert keys == [b"\0\0\0\2", b"\0\0\0\5", b"\0\0\0\6"]


def test_a_change_of_leaders_is_the_message_that_kafka_knows() -> None:
    (record,) = decode_batch(batch_of(LeaderChange(2, (1, 2, 3), (2, 3))))

    assert record.value is not None
    read = entity_reader(LeaderChangeMessage)(record.value, 0)[0]

    assert (read.version, read.leader_id) == (0, 2)
    assert [each.voter_id for each in read.voters] == [1, 2, 3]
    assert [each.voter_id for each in read.granting_voters] == [2, 3]


def test_voters_are_the_record_that_kafka_knows() -> None:
    read = entity_reader(VotersRecord)(encode_voters(VOTERS), 0)[0]

    assert [(each.voter_id, each.voter_directory_id) for each in read.voters] == [(1, UUID(int=11)), (2, None)]
    assert [(each.name, each.host, each.port) for each in read.voters[0].endpoints] == [
        ("CONTROLLER", "one.example", 9093),
        ("B", "::1", 65535),
    ]
    assert read.voters[0].k_raft_version_feature.max_supported_version == 1


@pytest.mark.parametrize("voters", [VOTERS, NO_VOTERS])
def test_voters_are_read_as_they_were_written(voters: VoterSet) -> None:
    assert decode_voters(encode_voters(voters)) == voters


def test_raft_is_told_of_the_voters_in_a_batch_and_where_they_are() -> None:
    with_voters = batch_of(LeaderChange(1, (1,), (1,)), KRaftVersion(1), Voters(VOTERS))
    without = batch_of(LeaderChange(1, (1,), (1,)))
    of_records = encode_batch([Record(40, 0, b"\0\0\0\6", b"no voters")], leader_epoch=3)

    assert describe_batch(with_voters, read_header(with_voters)) == BatchInfo(40, 43, 3, VotersAt(42, VOTERS))
    assert describe_batch(without, read_header(without)) == BatchInfo(40, 41, 3)
    assert describe_batch(of_records, read_header(of_records)) == BatchInfo(40, 41, 3)


def test_a_control_record_of_another_type_is_passed_over() -> None:
    batch = encode_batch([Record(5, 0, b"\0\0\0\x63", b"anything")], leader_epoch=3, is_control=True)

    assert describe_batch(batch, read_header(batch)) == BatchInfo(5, 6, 3)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff\x01\0", encode_voters(VOTERS)[:-9], b"\0\0\xff\xff\xff\xff\x0f"]
)
def test_bytes_that_are_no_voters_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_voters(data)


def test_a_control_record_without_a_type_is_refused() -> None:
    batch = encode_batch([Record(5, 0, b"\0", b"anything")], leader_epoch=3, is_control=True)

    with pytest.raises(CorruptRecord, match="offset 5"):
        describe_batch(batch, read_header(batch))


def test_a_set_of_voters_outside_its_batch_is_refused() -> None:
    batch = batch_of(LeaderChange(1, (1,), (1,)), KRaftVersion(1), Voters(VOTERS))
    batch[23:27] = bytes(4)  # the batch claims to end with its first record

    with pytest.raises(CorruptRecord):
        describe_batch(batch, read_header(batch))
