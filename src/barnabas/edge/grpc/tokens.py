"""The state of a stream's producer, and how a client carries it from a broken stream to the next one.

A token is opaque to clients, and names no secrets: a producer id is of use to those alone who may write to the topic.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from barnabas.core.errors import InvalidRequest
from barnabas.core.records.batch import add_sequence

MAX_PARTITIONS: Final = 64
MAX_TOKEN_BYTES: Final = 4096
_MAX_INT32: Final = 2**31 - 1


class _Token(msgspec.Struct, frozen=True, array_like=True):
    producer_id: int
    epoch: int
    turn: int
    topic: str
    sequences: list[tuple[int, int]]


@dataclass(slots=True)
class Producer:
    """An idempotent producer of one topic: the next sequence number of each partition, and its number of requests."""

    producer_id: int
    topic: str
    epoch: int = 0
    turn: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def sequence_of(self, partition: int) -> int:
        return self.sequences.get(partition, 0)

    def advance(self, partition: int, count: int) -> None:
        """So many records were appended to a partition."""
        self.sequences[partition] = add_sequence(self.sequence_of(partition), count)

    def token(self) -> bytes:
        """What `resume` continues from; empty where that would be long."""
        if len(self.sequences) > MAX_PARTITIONS:
            return b""
        token = _Token(self.producer_id, self.epoch, self.turn, self.topic, sorted(self.sequences.items()))
        return msgspec.msgpack.encode(token)


def resume(token: bytes, topic: str) -> Producer:
    """The producer of a token; refused if it is none of ours, or of another topic."""
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidRequest("resume_token is not one that this service gave")
    try:
        read = msgspec.msgpack.decode(token, type=_Token)
    except msgspec.MsgspecError:
        raise InvalidRequest("resume_token is not one that this service gave") from None
    numbers = [read.epoch, *(number for pair in read.sequences for number in pair)]
    if read.producer_id < 0 or not 0 <= read.turn < 2**62 or not all(0 <= each <= _MAX_INT32 for each in numbers):
        raise InvalidRequest("resume_token is not one that this service gave")
    if read.topic != topic:
        raise InvalidRequest(f"resume_token is of a stream to topic '{read.topic}', not '{topic}'")
    return Producer(read.producer_id, topic, read.epoch, read.turn, dict(read.sequences))
