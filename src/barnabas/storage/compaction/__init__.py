"""Log compaction: of each key only the newest record stays (`cleanup.policy=compact`).

    plan = plan_compaction(log, now_ms=..., hash_key=...)   # the log's owner; None when it is not due
    result = plan.run()                                     # any thread: reads and writes beside the log
    apply(log, result)                                      # the log's owner: swaps the cleaned segments in

The parts, in the order to read them: `due` decides which part of a log is dirty and whether that is enough;
`planning` collects what a round needs; `cleaner` runs it, with `key_map` (or `native`), `transactions` and `filter`
deciding what stays and `output` writing it; `swap` puts it in place.

Independent of retention: with ``compact,delete`` both apply, each for itself.
"""

from barnabas.storage.compaction.cleaner import CompactionPlan, CompactionResult, LogChanged
from barnabas.storage.compaction.due import Cleanable
from barnabas.storage.compaction.key_map import DEFAULT_MAP_BYTES, Engine
from barnabas.storage.compaction.planning import cleanable, plan_compaction
from barnabas.storage.compaction.swap import apply, discard, is_current

__all__ = [
    "DEFAULT_MAP_BYTES",
    "Cleanable",
    "CompactionPlan",
    "CompactionResult",
    "Engine",
    "LogChanged",
    "apply",
    "cleanable",
    "discard",
    "is_current",
    "plan_compaction",
]
