"""Calls of librdkafka that may not come back, though they are told how long they may take.

Such a call is made by a thread of its own. A caller who has waited long enough leaves it there, with all that it holds:
nothing can end it, and whatever it was called on must not be used again.
"""

import threading
from collections.abc import Callable
from typing import Any


class StillRunning(Exception):
    """A call has not come back in time; it may at any time from now on."""


def call_within(seconds: float, call: Callable[..., object], *arguments: Any) -> None:
    """Call, and wait for so long; raises what the call raises, or `StillRunning`."""
    raised: list[BaseException] = []
    is_done = threading.Event()

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as error:  # it is the caller's, whatever it is
            raised.append(error)
        finally:
            is_done.set()

    threading.Thread(target=run, name="barnabas-call", daemon=True).start()
    if not is_done.wait(seconds):
        raise StillRunning
    for error in raised:
        raise error
