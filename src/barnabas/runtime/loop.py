"""The event loop: uvloop where it is installed, else asyncio's own."""

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of a node's event loop."""
    try:
        import uvloop  # noqa: PLC0415 - it may not be there
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
