"""How much of a Consume stream is outstanding: sent, and not yet acknowledged.

A response counts until everything in it is acknowledged. A partition that is taken away no longer counts.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.core.errors import InvalidRequest
from barnabas.core.model import TopicPartition


class _Sent(NamedTuple):
    next_offset: int
    records: int
    size: int


@dataclass(slots=True)
class _Outstanding:
    sent: deque[_Sent] = field(default_factory=deque)
    sent_up_to: int = 0
    acked: int = -1  # -1: nothing


class Window:
    """The outstanding responses of one stream, and what each partition was acknowledged up to."""

    def __init__(self, *, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self.records = 0
        self.size = 0
        self._partitions: dict[TopicPartition, _Outstanding] = {}

    @property
    def room(self) -> tuple[int, int]:
        """How many records, and how many bytes of them, may be sent now. Bytes are positive as long as any are left."""
        return max(self._max_records - self.records, 0), max(self._max_bytes - self.size, 0)

    @property
    def is_full(self) -> bool:
        """Whether nothing may be sent now."""
        return self.records >= self._max_records or self.size >= self._max_bytes

    def add(self, name: TopicPartition, start_offset: int) -> None:
        """A partition is read from now on."""
        self._partitions[name] = _Outstanding(sent_up_to=start_offset)

    def remove(self, name: TopicPartition) -> None:
        """A partition is no longer read here."""
        gone = self._partitions.pop(name, None)
        for sent in gone.sent if gone is not None else ():
            self._release(sent)

    def note_sent(self, name: TopicPartition, *, next_offset: int, records: int, size: int) -> None:
        """A response was sent."""
        of = self._partitions[name]
        of.sent.append(_Sent(next_offset, records, size))
        of.sent_up_to = next_offset
        self.records += records
        self.size += size

    def acknowledge(self, name: TopicPartition, offset: int) -> bool:
        """Everything before an offset is processed; False for a partition that is not read here (any more)."""
        of = self._partitions.get(name)
        if of is None:
            return False
        if offset > of.sent_up_to:
            raise InvalidRequest(
                f"offset {offset} of {name} is acknowledged, but records were sent up to {of.sent_up_to} only"
            )
        if offset < 0:
            raise InvalidRequest(f"offset {offset} of {name} is acknowledged, which no record has")
        of.acked = max(of.acked, offset)
        while of.sent and of.sent[0].next_offset <= offset:
            self._release(of.sent.popleft())
        return True

    def acked(self) -> dict[TopicPartition, int]:
        """The acknowledged position of each partition that has one."""
        return {name: of.acked for name, of in self._partitions.items() if of.acked >= 0}

    def _release(self, sent: _Sent) -> None:
        self.records -= sent.records
        self.size -= sent.size
