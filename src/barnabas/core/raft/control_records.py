"""The records that Raft itself writes to the log, as Kafka lays them out: control batches with a type in each key.

Who leads (`LeaderChange`), that voters are in the log (`KRaftVersion`), and who they are (`Voters`). A control record
of another type is passed over, and so is what a later version adds at the end of one of these.

Must not know: what else is in the log.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final
from uuid import UUID

from barnabas.core.errors import CorruptRecord
from barnabas.core.log_fields import (
    INT16,
    INT32,
    INT64,
    BadFields,
    FieldReader,
    compact_array,
    compact_string,
    tagged_fields,
)
from barnabas.core.raft.log_view import BatchInfo
from barnabas.core.raft.output import ControlRecord, KRaftVersion, LeaderChange, Voters
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VotersAt, VoterSet
from barnabas.core.records.batch import BatchHeader, Buffer, check_batch, iter_batches
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Record, decode_records, encode_batch

_KEY: Final = Struct(">hh")  # version, type
_PORT: Final = Struct(">H")
_NO_DIRECTORY: Final = UUID(int=0)
_VERSION: Final = 0
_KRAFT_VERSIONS: Final = Struct(">hh")  # the lowest and the highest that a voter knows
_NO_TAGS: Final = tagged_fields()


def encode_control(records: Sequence[ControlRecord], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
    """One batch of control records at this place of the log."""
    return encode_batch(
        [
            Record(base_offset + index, timestamp_ms, _KEY.pack(_VERSION, _type_of(record)), _encode(record))
            for index, record in enumerate(records)
        ],
        leader_epoch=epoch,
        is_control=True,
    )


def encode_bootstrap(voters: VoterSet) -> bytes:
    """The checkpoint that a node is formatted with, as Kafka lays it out: a snapshot of voters and nothing else."""
    head = [
        (MarkerType.SNAPSHOT_HEADER, INT16.pack(_VERSION) + INT64.pack(0) + _NO_TAGS),  # no record has a time
        (MarkerType.KRAFT_VERSION, _encode(KRaftVersion(1))),
        (MarkerType.KRAFT_VOTERS, encode_voters(voters)),
    ]
    foot = [(MarkerType.SNAPSHOT_FOOTER, INT16.pack(_VERSION) + _NO_TAGS)]
    return bytes(_control_batch(head, 0) + _control_batch(foot, len(head)))


def _control_batch(records: Sequence[tuple[MarkerType, bytes]], base_offset: int) -> bytearray:
    return encode_batch(
        [
            Record(base_offset + index, 0, _KEY.pack(_VERSION, kind), value)
            for index, (kind, value) in enumerate(records)
        ],
        leader_epoch=0,
        is_control=True,
    )


def decode_bootstrap(data: bytes) -> VoterSet:
    """The voters of such a checkpoint; `CorruptRecord` where it is damaged, or not there whole."""
    found, kinds, offset = None, list[int](), 0
    for position, header in iter_batches(data):
        check_batch(data, position, header)
        if not header.is_control or (header.base_offset, header.leader_epoch) != (
            offset,
            0,
        ):  # no checksum covers these
            raise CorruptRecord(f"the batch at {position} is none of a checkpoint")
        offset = header.next_offset
        batch = memoryview(data)[position : position + header.size]
        found = voters_in(batch, header) or found
        kinds += [_KEY.unpack_from(record.key)[1] for record in decode_records(batch, 0, header) if record.key]
    # A checkpoint that is cut off has no footer, and one that lacks the rest would name no voters.
    if found is None or kinds[0] != MarkerType.SNAPSHOT_HEADER or kinds[-1] != MarkerType.SNAPSHOT_FOOTER:
        raise CorruptRecord("the header, the voters or the footer are missing")
    return found.voters


def describe_batch(batch: Buffer, header: BatchHeader) -> BatchInfo:
    """What Raft has to know of a batch: where it is, and the voters in it if it is a control batch."""
    voters = voters_in(batch, header) if header.is_control else None
    return BatchInfo(header.base_offset, header.next_offset, header.leader_epoch, voters)


def voters_in(batch: Buffer, header: BatchHeader) -> VotersAt | None:
    """The last set of voters in a control batch whose checksum was settled before."""
    found = None
    for record in decode_records(batch, 0, header):
        if record.key is None or len(record.key) < _KEY.size or record.value is None:
            raise CorruptRecord(f"the control record at offset {record.offset} has no type or no value")
        if _KEY.unpack_from(record.key)[1] == MarkerType.KRAFT_VOTERS:
            found = VotersAt(record.offset, decode_voters(record.value))
    return found


def _type_of(record: ControlRecord) -> MarkerType:
    if isinstance(record, LeaderChange):
        return MarkerType.LEADER_CHANGE
    return MarkerType.KRAFT_VERSION if isinstance(record, KRaftVersion) else MarkerType.KRAFT_VOTERS


def _encode(record: ControlRecord) -> bytes:
    if isinstance(record, LeaderChange):
        voters = [compact_array(ids, _encode_voter_id) for ids in (record.voter_ids, record.granting_ids)]
        return INT16.pack(_VERSION) + INT32.pack(record.leader_id) + b"".join(voters) + _NO_TAGS
    if isinstance(record, KRaftVersion):
        return INT16.pack(_VERSION) + INT16.pack(record.version) + _NO_TAGS
    assert isinstance(record, Voters)
    return encode_voters(record.voters)


def _encode_voter_id(node_id: int) -> bytes:
    return INT32.pack(node_id) + _NO_TAGS


def encode_voters(voters: VoterSet) -> bytes:
    """A set of voters, as a record or a snapshot holds it."""
    return INT16.pack(_VERSION) + compact_array(voters.voters, _encode_voter) + _NO_TAGS


def _encode_voter(voter: Voter) -> bytes:
    key = voter.key
    parts = (
        INT32.pack(key.node_id),
        (key.directory_id or _NO_DIRECTORY).bytes,
        compact_array(voter.endpoints, _encode_endpoint),
        _KRAFT_VERSIONS.pack(0, 1) + _NO_TAGS,
        _NO_TAGS,
    )
    return b"".join(parts)


def _encode_endpoint(endpoint: VoterEndpoint) -> bytes:
    return compact_string(endpoint.listener) + compact_string(endpoint.host) + _PORT.pack(endpoint.port) + _NO_TAGS


def decode_voters(data: bytes) -> VoterSet:
    """The set of voters that these bytes are; `CorruptRecord` when they are none."""
    reader = FieldReader(data)
    try:
        if reader.number(INT16) < 0:
            raise BadFields("a negative version")
        return VoterSet.of(reader.compact_array(lambda: _read_voter(reader)))
    except BadFields as error:
        raise CorruptRecord(f"{len(data)} bytes are no set of voters: {error}") from None


def _read_voter(reader: FieldReader) -> Voter:
    node_id, directory_id = reader.number(INT32), reader.uuid()
    endpoints = reader.compact_array(lambda: _read_endpoint(reader))
    reader.numbers(_KRAFT_VERSIONS)
    reader.tagged_fields()
    reader.tagged_fields()
    return Voter(ReplicaKey(node_id, None if directory_id == _NO_DIRECTORY else directory_id), endpoints)


def _read_endpoint(reader: FieldReader) -> VoterEndpoint:
    endpoint = VoterEndpoint(reader.compact_string(), reader.compact_string(), reader.number(_PORT))
    reader.tagged_fields()
    return endpoint
