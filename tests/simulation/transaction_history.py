"""What transactional clients asked for and what readers saw, and whether it fits: the checker of the bank.

A transfer is one transaction: records in several partitions whose amounts add up to nothing. Nobody may see one before
its producer asked for a commit, nor ever one whose abort was acknowledged or whose commit was refused; one whose commit
was acknowledged is seen whole and once; of one that was asked for without an answer, all is seen or nothing.

A transfer may also move a group on in a source: then that offset is committed exactly if the transfer is.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from tests.simulation.group_history import NO_OFFSET, At
from tests.simulation.node_history import Violation

Found = Mapping[At, Mapping[int, bytes]]


class Fate(Enum):
    """What is known of the end of a transfer."""

    OPEN = "open"  # nobody has asked for a commit
    ASKED = "asked"  # for a commit, and it is not known what became of that
    COMMITTED = "committed"
    ABORTED = "aborted"


class Step(NamedTuple):
    """The part of a source that a transfer takes as its input."""

    group: str
    source: At
    first_offset: int
    end_offset: int


class Transfer:
    """One transaction of a producer."""

    def __init__(self, name: str, step: Step | None = None) -> None:
        self.name = name
        self.step = step
        self.fate = Fate.OPEN
        self.values: dict[At, list[bytes]] = {}

    def add(self, at: At, amount: int) -> bytes:
        """A record of it."""
        value = b"%s %s %d" % (self.name.encode(), str(sum(map(len, self.values.values()))).encode(), amount)
        self.values.setdefault(at, []).append(value)
        return value

    def note_commit_sent(self) -> None:
        assert self.fate in (Fate.OPEN, Fate.ASKED)
        self.fate = Fate.ASKED

    def note_ended(self, *, is_commit: bool) -> None:
        """Its end was acknowledged, or its commit was refused."""
        if self.fate is Fate.COMMITTED or (self.fate is Fate.ABORTED and is_commit):
            raise Violation(f"{self.name} is {self.fate.value}, and ended once more, commit: {is_commit}")
        self.fate = Fate.COMMITTED if is_commit else Fate.ABORTED

    @property
    def may_be_seen(self) -> bool:
        return self.fate in (Fate.ASKED, Fate.COMMITTED)

    def __repr__(self) -> str:
        return f"transfer {self.name} ({self.fate.value})"


def amount_of(value: bytes) -> int:
    return int(value.rsplit(b" ", 1)[1])


class Bank:
    """All transfers, and all that was ever seen of them."""

    def __init__(self) -> None:
        self.transfers: dict[str, Transfer] = {}
        self.stable: dict[At, int] = {}  # the highest last stable offset that was told, by partition
        self.progress: dict[At, int] = {}  # how far commits were acknowledged, by source
        self._seen: dict[At, dict[int, bytes]] = {}
        self._places: dict[tuple[At, bytes], int] = {}

    def open(self, name: str, step: Step | None = None) -> Transfer:
        assert name not in self.transfers
        transfer = self.transfers[name] = Transfer(name, step)
        return transfer

    def note_committed(self, transfer: Transfer) -> None:
        """A commit was acknowledged."""
        transfer.note_ended(is_commit=True)
        if transfer.step is not None:
            source = transfer.step.source
            self.progress[source] = max(self.progress.get(source, 0), transfer.step.end_offset)

    # What readers of committed records are told.

    def note_offsets(self, at: At, *, last_stable: int, high_watermark: int, at_least: int) -> None:
        """What a fetch said that was sent when the last stable offset was known to be `at_least`."""
        if not 0 <= last_stable <= high_watermark:
            raise Violation(f"{at}: stable to {last_stable}, high watermark {high_watermark}")
        if last_stable < at_least:
            raise Violation(f"{at}: the last stable offset went back from {at_least} to {last_stable}")
        self.stable[at] = max(self.stable.get(at, 0), last_stable)

    def note_read(self, at: At, offset: int, value: bytes) -> None:
        """A committed record was read."""
        transfer = self.transfers[value.split(b" ", 1)[0].decode()]
        if value not in transfer.values.get(at, ()):
            raise Violation(f"{at}: {value!r} at {offset} was never sent there")
        if not transfer.may_be_seen:
            raise Violation(f"{at}: {value!r} at {offset} is seen, of {transfer}")
        if self._seen.setdefault(at, {}).setdefault(offset, value) != value:
            raise Violation(f"{at}: offset {offset} was {self._seen[at][offset]!r} and is {value!r}")
        if self._places.setdefault((at, value), offset) != offset:
            raise Violation(f"{at}: {value!r} is at {self._places[at, value]} and again at {offset}")

    def note_offset(self, group: str, source: At, offset: int, tag: str, *, at_least: int) -> None:
        """A committed offset was fetched: `tag` is the name of the transfer that it was committed in."""
        if max(offset, 0) < at_least:
            raise Violation(f"{group}: {source} is at {offset}, though {at_least} was committed")
        if offset == NO_OFFSET:
            return
        transfer = self.transfers[tag]
        if transfer.step is None or (transfer.step.source, transfer.step.end_offset) != (source, offset):
            raise Violation(f"{group}: {source} is at {offset}, which {transfer} did not commit")
        if not transfer.may_be_seen:
            raise Violation(f"{group}: {source} is at {offset}, of {transfer}")

    # When all is over.

    def check_all(self, found: Found) -> None:
        """`found` is all that can be read: transfers are there whole or not at all, and as they should."""
        for at, seen in self._seen.items():
            for offset, value in seen.items():
                if found[at].get(offset) != value:
                    raise Violation(f"{at}: {value!r} was read at {offset}, where now is {found[at].get(offset)!r}")
        of_transfer: dict[str, dict[At, list[bytes]]] = {}
        total = 0
        for at, records in found.items():
            for _, value in sorted(records.items()):
                of_transfer.setdefault(value.split(b" ", 1)[0].decode(), {}).setdefault(at, []).append(value)
                total += amount_of(value)
        for transfer in self.transfers.values():
            _settle(transfer, of_transfer.get(transfer.name, {}))
        if total:
            raise Violation(f"the accounts add up to {total}")

    def check_progress(self, source: At, offset: int) -> None:
        """The committed offset of a source is `offset`: so far, and no further, it was worked off, once."""
        expected = 0
        for step in sorted(self._steps(source), key=lambda step: step.first_offset):
            if step.first_offset != expected:
                raise Violation(f"{source}: {step} was committed, and {expected} was next")
            expected = step.end_offset
        if expected != max(offset, 0):
            raise Violation(f"{source} is worked off to {expected}, and {offset} is committed")

    def _steps(self, source: At) -> Iterator[Step]:
        for transfer in self.transfers.values():
            if transfer.fate is Fate.COMMITTED and transfer.step is not None and transfer.step.source == source:
                yield transfer.step


def _settle(transfer: Transfer, found: Mapping[At, list[bytes]]) -> None:
    """Check one transfer against what there is of it, which also says how it ended if nobody knew."""
    if not found:
        if transfer.fate is Fate.COMMITTED:
            raise Violation(f"{transfer} is lost")
        transfer.fate = Fate.ABORTED
        return
    if not transfer.may_be_seen:
        raise Violation(f"{transfer} is there: {found}")
    if found != transfer.values:
        raise Violation(f"{transfer} is torn: {found} of {transfer.values}")
    transfer.fate = Fate.COMMITTED
