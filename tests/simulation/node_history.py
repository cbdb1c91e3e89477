"""What clients of a node were told, and whether it fits together: the checker of the node's simulation.

Everything is noted as a client sees it, from answers alone. A record is *firm* once it was acknowledged with acks=all,
or fetched: from then on it must be at that offset, with that content, until its topic is deleted or retention takes it.
"""

from collections.abc import Iterable
from enum import Enum
from uuid import UUID

from barnabas.core.records.batch import check_batch, iter_batches
from barnabas.core.records.record import decode_batch
from barnabas.testing.trace import digest_of


class Violation(AssertionError):
    """A promise was broken."""


class Kind(Enum):
    """What may become of a topic's records."""

    PLAIN = "plain"  # they all stay
    SHORT = "short"  # the oldest go
    COMPACTED = "compacted"  # the newest of each key stays


class State(Enum):
    """What is known of a topic."""

    LIVE = "live"
    CHANGING = "changing"  # it is being deleted, or may have been
    GONE = "gone"


class TopicLife:
    """One topic from its creation to its deletion. The next of its name is another."""

    def __init__(self, name: str, topic_id: UUID, partitions: int, kind: Kind) -> None:
        self.name = name
        self.topic_id = topic_id
        self.kind = kind
        self.state = State.LIVE
        self.partitions = [PartitionHistory(f"{name}-{number}", kind) for number in range(partitions)]

    def check_may_be_unknown(self) -> None:
        """The node says that it does not know the topic."""
        if self.state is State.LIVE:
            raise Violation(f"topic {self.name} ({self.topic_id}) is not known to the node any more")


class PartitionHistory:
    """What clients know of one partition."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.sent: dict[bytes, bytes | None] = {}  # every value ever sent, and its key
        self.firm: dict[int, bytes] = {}  # value by offset
        self.offsets: dict[bytes, int] = {}  # the other way round
        self.batches: dict[int, str] = {}  # digest by base offset
        self.high_watermark = 0
        self.log_start_offset = 0

    def note_acked(self, base_offset: int, values: Iterable[bytes]) -> None:
        """A batch was acknowledged with acks=all."""
        for offset, value in enumerate(values, start=base_offset):
            self._note_firm(offset, value)

    def note_offsets(self, *, log_start: int, last_stable: int, high_watermark: int, at_least: int) -> None:
        """What a fetch said that was sent when the high watermark was known to be `at_least`."""
        if not 0 <= log_start <= high_watermark or not 0 <= last_stable <= high_watermark:
            raise Violation(f"{self.name}: start {log_start}, stable to {last_stable}, high watermark {high_watermark}")
        if high_watermark < at_least:
            raise Violation(f"{self.name}: the high watermark went back from {at_least} to {high_watermark}")
        if self.kind is not Kind.SHORT and log_start:
            raise Violation(f"{self.name}: starts at {log_start}, though nothing may be deleted")
        self.high_watermark = max(self.high_watermark, high_watermark)
        self.log_start_offset = max(self.log_start_offset, log_start)

    def note_fetched(self, offset: int, data: bytes, *, high_watermark: int) -> int:
        """Records that were fetched from `offset` on; returns where to go on."""
        expected = offset
        for position, header in iter_batches(data):
            batch = data[position : position + header.size]
            check_batch(batch, 0, header)
            if header.next_offset > high_watermark:
                raise Violation(f"{self.name}: offset {header.last_offset} given, high watermark {high_watermark}")
            if header.next_offset <= expected:
                raise Violation(f"{self.name}: a batch that ends at {header.last_offset} given for {expected}")
            if self.kind is not Kind.COMPACTED:
                is_first = position == 0
                if header.base_offset != expected and not (is_first and header.base_offset < expected):
                    raise Violation(f"{self.name}: offset {expected} is missing, {header.base_offset} came")
                if self.batches.setdefault(header.base_offset, digest_of(batch)) != digest_of(batch):
                    raise Violation(f"{self.name}: the batch at {header.base_offset} has changed")
            for record in decode_batch(batch):
                self._note_firm(record.offset, record.value or b"")
            expected = header.next_offset
        return expected

    def _note_firm(self, offset: int, value: bytes) -> None:
        if value not in self.sent:
            raise Violation(f"{self.name}: nobody sent what is at {offset}: {value[:30]!r}")
        if self.firm.setdefault(offset, value) != value:
            raise Violation(f"{self.name}: offset {offset} was {self.firm[offset][:30]!r} and is {value[:30]!r}")
        if self.offsets.setdefault(value, offset) != offset:
            raise Violation(f"{self.name}: {value[:30]!r} is at {self.offsets[value]} and again at {offset}")

    def check_all(self, found: dict[int, bytes]) -> None:
        """`found` is all there is: nothing firm may be missing."""
        newest = {self.sent[value]: offset for offset, value in sorted(found.items())}
        for offset, value in self.firm.items():
            if offset in found or offset < self.log_start_offset:
                continue  # its value was compared when it was fetched
            if self.kind is Kind.COMPACTED and newest.get(self.sent[value], -1) > offset:
                continue
            raise Violation(f"{self.name}: what was at offset {offset} is lost: {value[:30]!r}")
