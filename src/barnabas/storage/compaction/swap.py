"""Replacing segments by the cleaned ones made from them, by the owner of the log.

The order is what makes a crash harmless:

1. The recovery point is durably beyond the segments to be replaced. Recovery takes everything from there on for
   unverified and a gap in it for loss, and cleaned segments have gaps.
2. The cleaned logs are renamed to names that say what they replace, and the directory is synced. That is the commit:
   from here on recovery finishes the swap, before it only removes leftovers. A crash may commit some segments
   and not others; each is right by itself.
3. The swap is finished (`interrupted.finish_swaps`), transaction indexes included. It cannot be undone, so everything
   that has to be opened for it is opened before 2, where it can still be refused.
4. The indexes follow. One that a crash loses is rebuilt from the log.
5. The cleaner's checkpoint is raised. A crash before that costs a round over the same records.
"""

from barnabas.core.errors import StorageExhausted
from barnabas.storage.compaction.cleaner import CompactionPlan, CompactionResult
from barnabas.storage.compaction.output import FinishedSegment, cleaned_file, output_files, remove_files
from barnabas.storage.disk import OpenDirectory
from barnabas.storage.interrupted import finish_swaps
from barnabas.storage.log import Log
from barnabas.storage.names import INDEX, LOG, TIME_INDEX, segment_file, swap_file
from barnabas.storage.segment import Segment


def apply(log: Log, result: CompactionResult) -> bool:
    """Swap the result of a run into the log. False if the log was truncated meanwhile, which makes the result void."""
    if not is_current(log, result.plan) or not _is_complete(result):
        discard(result)
        return False
    checkpoints = log.context.checkpoints
    if result.outputs:
        replace_segments(log, result.outputs)
    with log.context.health.guarded():
        checkpoints.set_cleaned_to(log.partition, result.cleaned_to)
        checkpoints.write()
    return True


def discard(result: CompactionResult) -> None:
    """Discard the result of a run."""
    remove_files(result.plan.disk, result.plan.directory, result.outputs)


def is_current(log: Log, plan: CompactionPlan) -> bool:
    """Whether the log still has what the plan was made for. An error from a run that is not current means nothing."""
    present = {id(segment) for segment in log.segments}
    return log.cuts == plan.cuts and all(id(source.segment) in present for source in plan.sources)


def _is_complete(result: CompactionResult) -> bool:
    """Whether the files exist: deleting a log removes them."""
    disk, directory = result.plan.disk, result.plan.directory
    return all(disk.exists(path) for output in result.outputs for path in output_files(directory, output))


def _raise_recovery_point(log: Log, end_offset: int) -> None:
    if log.flushed_offset < end_offset:
        log.flush()
    log.prepare_checkpoint()
    log.context.checkpoints.write()


def replace_segments(log: Log, outputs: tuple[FinishedSegment, ...]) -> None:
    """Put finished segments in the place of those that they were made from. Refused for lack of space, they are
    removed.
    """
    health = log.context.health
    try:
        with health.guarded():
            _raise_recovery_point(log, outputs[-1].end_base_offset)
            names = log.context.files.disk.list_dir(log.directory)
            opened = log.context.files.disk.open_dir(log.directory)
            _commit(log, outputs, opened)
    except StorageExhausted:
        with health.guarded():
            remove_files(log.context.files.disk, log.directory, outputs)
        raise
    with health.guarded(is_final=True):
        _finish(log, outputs, names, opened)
    with health.sparing():
        _remove_useless(log, outputs)


def _commit(log: Log, outputs: tuple[FinishedSegment, ...], opened: OpenDirectory) -> None:
    disk, directory = log.context.files.disk, log.directory
    try:
        for output in outputs:
            disk.rename(cleaned_file(directory, output.base_offset, LOG), _swap_name(directory, output))
    except OSError:
        # Those that have their new name must lose it, durably: a crash would one day put them in the place of whatever
        # the log has there by then.
        with log.context.health.guarded(is_final=True):
            for output in outputs:
                if disk.exists(_swap_name(directory, output)):
                    disk.remove(_swap_name(directory, output))
            opened.sync()
        raise
    opened.sync()


def _swap_name(directory: str, output: FinishedSegment) -> str:
    return swap_file(directory, output.base_offset, output.end_base_offset)


def _finish(log: Log, outputs: tuple[FinishedSegment, ...], names: list[str], opened: OpenDirectory) -> None:
    disk, directory = log.context.files.disk, log.directory
    for segment in _replaced(log, outputs):
        segment.retire()  # before other files take its names: a lookup in another thread must not mix the two
    swaps = [(output.base_offset, output.end_base_offset) for output in outputs]
    finish_swaps(log.context, directory, swaps, names, opened)
    for output in outputs:
        for suffix in (INDEX, TIME_INDEX):
            target = segment_file(directory, output.base_offset, suffix)
            disk.rename(cleaned_file(directory, output.base_offset, suffix), target)
    _take_over(log, outputs)


def _take_over(log: Log, outputs: tuple[FinishedSegment, ...]) -> None:
    """Give the log its new segments."""
    replaced = _replaced(log, outputs)
    cleaned = [
        Segment(
            log.context.files,
            log.directory,
            output.base_offset,
            index_interval_bytes=log.config.index_interval_bytes,
            size=output.size,
        )
        for output in outputs
    ]
    kept = [segment for segment in log.segments if segment not in replaced]
    log.set_segments(sorted([*kept, *cleaned], key=lambda segment: segment.base_offset))


def _remove_useless(log: Log, outputs: tuple[FinishedSegment, ...]) -> None:
    """Remove files that the swap made obsolete.

    Any that remain do no harm; opening the log, or the next swap, removes them.
    """
    _remove_empty(log)
    for output in outputs:
        log.producer_files.remove_between(output.base_offset, output.end_base_offset)


def _replaced(log: Log, outputs: tuple[FinishedSegment, ...]) -> list[Segment]:
    return [segment for segment in log.segments if any(output.replaces(segment.base_offset) for output in outputs)]


def _remove_empty(log: Log) -> None:
    """Remove empty segments: readers continue in the next. The first stays, since the log starts there."""
    empty = [segment for segment in log.segments[1:-1] if segment.size == 0]
    if not empty:
        return
    log.set_segments([segment for segment in log.segments if segment not in empty])
    for segment in empty:
        segment.remove()
        log.producer_files.remove_between(segment.base_offset - 1, segment.base_offset + 1)
