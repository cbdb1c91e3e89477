"""The hosts of a simulation: whose task, timer, server or connection this is, and whether its process still lives.

All nodes of a simulated cluster run in one event loop. A context variable says for which host the code at hand runs:
tasks, timers and callbacks inherit it, as they inherit every context variable. A crash ends a host's `Life`: from
then on the loop runs none of its callbacks, so that no ``finally`` and no ``except`` of a dead process is ever run. A
pause, as by SIGSTOP, has its callbacks and timers wait: its connections stay, and what others send it is not read.

Must not know: sockets, disks.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class HostCrashed(Exception):
    """The host crashed while a caller waited for its work."""


class Life:
    """One run of a host's process, from its start to its crash."""

    __slots__ = ("host_name", "is_alive", "is_paused", "watchers")

    def __init__(self, host_name: str) -> None:
        self.host_name = host_name
        self.is_alive = True
        self.is_paused = False
        self.watchers: list[asyncio.Future[Any]] = []

    def end(self) -> None:
        """End the life: none of its code runs any more, and waiters from outside are notified."""
        self.is_alive = False
        for watcher in self.watchers:
            if not watcher.done():
                watcher.set_exception(HostCrashed(self.host_name))
        self.watchers.clear()


_life: ContextVar[Life | None] = ContextVar("barnabas_simulated_life", default=None)


def current_life(context: Context | None = None) -> Life | None:
    """The life for which the running code, or code in `context`, runs; None for the test itself."""
    return _life.get() if context is None else context.get(_life)


class Host:
    """A named machine of the simulated network, on which one process runs, again after every crash."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self._loop = loop
        self.life = Life(name)

    def context(self) -> Context:
        """A context in which code runs for this host."""
        context = copy_context()
        context.run(_life.set, self.life)
        return context

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """A task of this host, with all that it starts. After a crash it never ends: await `run` rather."""
        return self._loop.create_task(coroutine, name=name, context=self.context())

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on this host and return its result; raises `HostCrashed` if the host crashes before."""
        life = self.life
        outcome: asyncio.Future[T] = self._loop.create_future()
        life.watchers.append(outcome)
        task = self.start(coroutine)
        task.add_done_callback(lambda done: _hand_over(done, outcome))
        try:
            return await outcome
        finally:
            if outcome in life.watchers:
                life.watchers.remove(outcome)
            if life.is_alive:
                task.cancel()  # does nothing to one that is done

    def end_life(self) -> Life:
        """End the process, and prepare for the next; returns the life that ended."""
        ended, self.life = self.life, Life(self.name)
        ended.end()
        return ended

    def __repr__(self) -> str:
        return f"Host({self.name!r})"


def _hand_over(done: asyncio.Task[T], outcome: asyncio.Future[T]) -> None:
    error = None if done.cancelled() else done.exception()  # asked for also when nobody waits: it is retrieved then
    if outcome.done():
        return
    if done.cancelled():
        outcome.cancel()
    elif error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())
