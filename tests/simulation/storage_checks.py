"""Whether a log is what its model says, live and after a crash.

After a crash more than one outcome may be right: an operation that was cut off is done, not done, or half done in a
way that nobody was promised anything about. `adopt` knows which, refuses the rest as `Violation`, and returns the
model of what is there from now on.
"""

from dataclasses import dataclass, field

from barnabas.core.model import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from tests.simulation.storage_model import (
    Aborted,
    Epoch,
    LogModel,
    ModelBatch,
    ModelProducers,
    Violation,
    epoch_end,
    replay,
    started_at,
)

LEAP = 2**31  # beyond this no two offsets of a log are in one segment


@dataclass
class Underway:
    """The operation that a crash cut off: what it was appending, or the offsets it may have cut the log at."""

    partition: TopicPartition
    kind: str
    batches: list[ModelBatch] = field(default_factory=list)
    offsets: tuple[int, ...] = ()


def expect(condition: object, problem: str) -> None:
    if not condition:
        raise Violation(problem)


def check_live(log: Log, model: LogModel) -> None:
    """What a log says of itself fits the model, and what it says is durable is noted."""
    found = (log.log_start_offset, log.end_offset)
    expect(found == (model.start, model.end), f"{log!r} is not {model.start}..{model.end}")
    expect(model.durable <= log.flushed_offset <= log.end_offset, f"{log!r} took back what was durable")
    model.durable = log.flushed_offset
    epochs = [Epoch(*each) for each in log.epochs.entries]
    expect(epochs == model.epochs, f"{log!r} has epochs {epochs}, not {model.epochs}")


def adopt(log: Log, model: LogModel, underway: Underway | None, *, has_lost_snapshots: bool) -> LogModel:
    """Check a reopened log; returns the model of what is there from now on."""
    kind = underway.kind if underway is not None else ""
    found = [ModelBatch.of(bytes(batch.data)) for segment in log.segments for batch in segment.batches()]
    fresh = _as_reset(log, model, underway) if not found else None
    if fresh is not None:
        return fresh
    _check_bounds(log, model, underway)
    present = _check_batches(log, model, underway, found)
    present.epochs = _check_epochs(log, present, is_made_anew=kind == "delete" and bool(found))
    # A log that lost snapshots, to a test or with its files, knows of deleted records what some later batch tells.
    states = check_producers(log, present, is_lenient=has_lost_snapshots or kind in ("reset", "delete"))
    _check_transactions(log, present, states)
    return present


def _as_reset(log: Log, model: LogModel, underway: Underway | None) -> LogModel | None:
    """The model of a log whose reset is done, though nobody was told; None when it does not look so."""
    if underway is None or underway.kind != "reset":
        return None
    (offset,) = underway.offsets
    may_not_have_begun = model.start == offset >= model.durable
    if may_not_have_begun or not log.log_start_offset == log.end_offset == offset:
        return None
    expect(not log.epochs.entries, f"{log!r} was reset and has epochs {log.epochs.entries}")
    expect(not producers_of(log), f"{log!r} was reset and remembers producers {producers_of(log)}")
    return LogModel(start=offset, end=offset, durable=offset)


def _check_bounds(log: Log, model: LogModel, underway: Underway | None) -> None:
    kind = underway.kind if underway is not None else ""
    start = log.log_start_offset
    is_right = start == model.start
    if underway is not None and kind == "delete_before":
        is_right |= start in [max(offset, model.start) for offset in underway.offsets]
    elif kind == "reset":  # files go one by one
        is_right = start >= model.start
    elif kind == "delete":  # the start that was noted goes before the files
        is_right = start <= model.start
    expect(is_right, f"{log!r} starts at {start}, not at {model.start}")
    durable = _durable(model, underway)
    expect(log.end_offset >= durable, f"{log!r} ends before {durable}, which was durable")
    expect(log.flushed_offset == log.end_offset, f"{log!r} was opened and is not durable")


def _durable(model: LogModel, underway: Underway | None) -> int:
    """Up to where everything must be there."""
    if underway is not None and underway.kind == "truncate":
        return min(model.durable, *underway.offsets)
    if underway is not None and underway.kind == "reset":
        return 0
    if underway is not None and underway.kind == "delete":  # where an empty log starts is forgotten first
        # The recovery point goes as well, without which a segment that the log leapt to is taken for a stray one.
        batches = [batch for batch in model.readable() if batch.first < min(model.durable, LEAP)]
        return max((batch.last + 1 for batch in batches), default=0)
    return model.durable


def _check_batches(log: Log, model: LogModel, underway: Underway | None, found: list[ModelBatch]) -> LogModel:
    """The batches are a run of what was appended; returns the model with these and no later ones."""
    cut_off = underway.batches if underway is not None else []
    history = [*model.batches, *cut_off]
    if found:
        first = next((index for index, batch in enumerate(history) if batch.first == found[0].first), -1)
        is_run = first >= 0 and found == history[first : first + len(found)]
        expect(is_run, f"{log!r} holds what was never appended")
        # Before a batch that is far ahead the log leaps to its offset.
        rest = history[first + len(found) :]
        leapt_to = log.active.base_offset if log.active.size == 0 else found[-1].last + 1
        limit = rest[0].first if rest else max(model.end, found[-1].last + 1)
        is_end = log.end_offset in (found[-1].last + 1, leapt_to) and log.end_offset <= limit
        expect(is_end, f"{log!r} does not end with its last batch")
        missing = [batch for batch in history[:first] if batch.last >= log.log_start_offset]
        expect(not missing, f"{log!r} lost its first batches")
    else:
        first = len([batch for batch in history if batch.last < log.end_offset])
        durable = _durable(model, underway)
        lost = [batch for batch in history if log.log_start_offset <= batch.last and batch.first < durable]
        expect(not lost, f"{log!r} is empty, but had {len(lost)} durable batches")
    present = model.copy()
    present.batches = history[: first + len(found)]
    present.start, present.end, present.durable = log.log_start_offset, log.end_offset, log.end_offset
    for batch in cut_off:
        present.note_epoch(batch.header.leader_epoch, batch.first)
    return present


def _check_epochs(log: Log, present: LogModel, *, is_made_anew: bool) -> list[Epoch]:
    """The epochs to go on with: those of the log, where they mean what the model's do."""
    stored = [Epoch(*each) for each in log.epochs.entries]
    if not present.readable():
        # The epoch before an empty log is remembered until another one begins, which a crash may undo.
        expect(len(stored) <= 1, f"{log!r} is empty and has epochs {stored}")
        return stored
    wanted = started_at([each for each in present.epochs if each.start < present.end], present.start)
    if is_made_anew:  # from the batches: the recovery point went before the files
        wanted = []
        for batch in present.readable():
            if not wanted or wanted[-1].epoch != batch.header.leader_epoch:
                wanted.append(Epoch(batch.header.leader_epoch, max(batch.first, present.start)))
    expect(_settled(stored, present) == _settled(wanted, present), f"{log!r} has epochs {stored}, not {wanted}")
    return stored


def _settled(epochs: list[Epoch], model: LogModel) -> list[Epoch]:
    """The epochs that have batches, each beginning with its first: in a gap of compaction it may begin anywhere."""
    firsts = [batch.first for batch in model.batches]
    starts = {  # of two that begin together the later one wrote
        max(model.start, min((first for first in firsts if first >= each.start), default=model.end)): each.epoch
        for each in epochs
    }
    return [Epoch(epoch, start) for start, epoch in starts.items()]


def _check_transactions(log: Log, model: LogModel, states: list[ModelProducers]) -> None:
    for epoch in range(-1, model.latest_epoch() + 2):
        found, wanted = tuple(log.epoch_end(epoch)), epoch_end(model.epochs, epoch, model.end)
        expect(found == wanted, f"epoch {epoch} ends at {found}, not {wanted}")
    if model.is_vague:
        return
    stable = min([model.end, *model.producers().open_starts()])
    expect(log.last_stable_offset(model.end) == stable, f"{log!r} is not stable up to {stable}")
    aborted = [Aborted(*each) for each in aborted_transactions(log, model.start, model.end)]
    choices = [[each for each in state.aborted if each.last_offset >= model.start] for state in states]
    if len(states) > 1:  # what was known when each was aborted may differ
        aborted = [each._replace(last_stable_offset=-1) for each in aborted]
        choices = [[each._replace(last_stable_offset=-1) for each in choice] for choice in choices]
        certain = [each for each in choices[0] if all(each in choice for choice in choices)]
        possible = [each for choice in choices for each in choice]
        is_right = set(certain) <= set(aborted) <= set(possible)
    else:
        is_right = aborted == choices[0]
    expect(is_right, f"{log!r} has {aborted} aborted, not {choices[0]}")


def check_producers(log: Log, model: LogModel, *, is_lenient: bool) -> list[ModelProducers]:
    """The producers are those of all batches; when lenient, of all from some point on that is gone from the files.

    Returns what they may be, and notes in the model from where on they are known.
    """
    gone = [batch for batch in model.batches if batch.last < log.segments[0].base_offset]
    starts = [model.known_from, *(range(len(gone) + 1) if is_lenient else ())]
    states = [replay(model.batches[start:]) for start in starts]
    found = producers_of(log)
    fitting = next((start for start, state in zip(starts, states, strict=True) if found == _as_dict(state)), None)
    model.is_vague |= fitting is None and is_lenient
    if not model.is_vague:
        expect(fitting is not None, f"{log!r} remembers producers {found}, not {_as_dict(states[0])}")
    model.known_from = fitting or 0
    return states


def producers_of(log: Log) -> dict[int, tuple[object, ...]]:
    """Everything a log remembers of its producers that decides anything."""
    return {
        each.producer_id: (
            each.epoch,
            each.coordinator_epoch,
            each.last_timestamp,
            each.transaction_start,
            [tuple(batch[:4]) for batch in each.batches],
        )
        for each in log.producers
    }


def _as_dict(producers: ModelProducers) -> dict[int, tuple[object, ...]]:
    return {
        producer_id: (
            each.epoch,
            each.coordinator_epoch,
            each.last_timestamp,
            each.transaction_start,
            [tuple(batch) for batch in each.batches],
        )
        for producer_id, each in producers.by_id.items()
    }
