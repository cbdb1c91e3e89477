"""Closing a consumer, in bounded time.

librdkafka may wait for itself forever: when a consumer is closed while the offset of a partition is being reset, the
thread of its broker discards the reset under a lock that discarding it takes once more (seen with 2.16, one time in a
hundred after a damaged batch). What is committed is committed by then, and nothing of the handle is needed any more, so
it is left behind.
"""

import threading
from typing import Final, Protocol

READER_S: Final = 5.0
"""For one that is in no group: closing it asks nobody anything."""
MEMBER_S: Final = 60.0
"""For a member of a group, which hands back its partitions and leaves."""


class Closable(Protocol):
    def close(self) -> None: ...


def close_within(consumer: Closable, patience_s: float) -> bool:
    """Close it, and raise what closing raises; False if that takes longer than this: it goes on by itself."""
    failures: list[BaseException] = []

    def close() -> None:
        try:
            consumer.close()
        except BaseException as failure:
            failures.append(failure)

    closing = threading.Thread(target=close, name="barnabas-closing", daemon=True)
    closing.start()
    closing.join(patience_s)
    for failure in failures:
        raise failure
    return not closing.is_alive()
