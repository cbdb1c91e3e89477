"""Work on a log that a crash interrupted, recognized by the names in its directory: it is finished (a compacted segment
about to take its place) or undone (everything else).
"""

import itertools

from barnabas.storage.disk import OpenDirectory
from barnabas.storage.log_parts import LogContext
from barnabas.storage.names import (
    CLEANED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    base_offset_of,
    parse_swap,
    segment_file,
    swap_file,
    swap_txn_index_file,
)


def settle_names(context: LogContext, directory: str, log_start_offset: int, notes: list[str]) -> list[int]:
    """Finish or undo what was interrupted, and note that; returns the base offsets of the segments."""
    disk = context.files.disk
    names = disk.list_dir(directory)
    for name in names:
        if name.endswith((CLEANED, TEMPORARY)):
            disk.remove(f"{directory}/{name}")
            notes.append(f"removed unfinished {name}")
    swaps = [swap for name in names if (swap := parse_swap(name)) is not None]
    if swaps:
        finish_swaps(context, directory, swaps, names, disk.open_dir(directory))
        notes.append(f"finished the swap of {len(swaps)} compacted segments")
    names = disk.list_dir(directory)
    for name in [name for name in names if name.endswith(TXN_INDEX + SWAP)]:
        names.remove(name)
        disk.remove(f"{directory}/{name}")
        notes.append(f"removed unfinished {name}")
    bases = sorted(base for name in names if (base := base_offset_of(name, LOG)) is not None)
    deleted = [base for base, following in itertools.pairwise(bases) if following <= log_start_offset]
    known = dict.fromkeys(bases[len(deleted) :])
    for name in names:
        for suffix in SEGMENT_SUFFIXES:
            base = base_offset_of(name, suffix)
            if base is not None and base not in known:
                disk.remove(f"{directory}/{name}")
                notes.append(f"removed leftover {name}")
    return list(known)


def finish_swaps(
    context: LogContext, directory: str, swaps: list[tuple[int, int]], names: list[str], opened: OpenDirectory
) -> None:
    """Put finished compacted segments in the place of all segments with a base in [base, end base) of each.

    `names` are those in the directory, and `opened` is that directory: nothing needs to be opened here, for there is no
    way back.

    Also done again after a crash at any point of it. The swap file goes last, when all else is durable: as long as it
    is there, the swap is not finished. The transaction index comes with the segment and is in place before it,
    for the two must fit: aborted data would be seen without it, and committed data hidden by what it has too much.
    """
    disk = context.files.disk
    for name in names:
        for suffix in SEGMENT_SUFFIXES:
            base = base_offset_of(name, suffix)
            if base is not None and _is_replaced(base, suffix, swaps):
                context.files.forget(f"{directory}/{name}")
                disk.remove(f"{directory}/{name}")
    for swap in swaps:
        _move(context, swap_txn_index_file(directory, *swap), segment_file(directory, swap[0], TXN_INDEX))
    opened.sync()
    for swap in swaps:
        _move(context, swap_file(directory, *swap), segment_file(directory, swap[0], LOG))
    opened.sync()


def _is_replaced(base: int, suffix: str, swaps: list[tuple[int, int]]) -> bool:
    return any(start <= base < end and (base > start or suffix in (INDEX, TIME_INDEX)) for start, end in swaps)


def _move(context: LogContext, source: str, target: str) -> None:
    """Rename over `target`; a source that is gone was moved before."""
    disk = context.files.disk
    if disk.exists(source):
        disk.rename(source, target)
    context.files.forget(target)  # only now: before, another thread could open what was there and keep it
    if disk.exists(source):
        disk.remove(source)  # both were names of one file, left by a rename that a crash interrupted
