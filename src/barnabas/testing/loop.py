"""An event loop with virtual time: the code of a node runs on it unchanged, and a seed decides everything random.

Owns the time, the order of callbacks, and the tasks. When nothing is ready, time jumps to the next timer. As in
asyncio, what `call_soon` takes runs in that order; timers due at the same instant run in an order the seed gives.

Invariants: one thread; the same seed and the same program take the same steps, in another process too. So nothing
here depends on `id`, `hash`, the order of a set, the wall clock or the moment the garbage collector comes by: tasks
and futures hash by a number (asyncio itself keeps tasks in sets), and garbage is collected at fixed steps only.

Must not know: what a network is made of (it is attached), disks. Not simulated: real files and sockets, child
processes, signals, TLS; asking for one raises NotImplementedError. Callbacks take no virtual time.
"""

import asyncio
import gc
import heapq
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

from barnabas.testing.hosts import Life, current_life
from barnabas.testing.loop_tasks import SimulatedFuture, SimulatedTask, describe_tasks, name_callback, name_coroutine
from barnabas.testing.offload import SimulatedOffload
from barnabas.testing.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_STEPS: Final = 5_000_000
MAX_TIME_S: Final = 7 * 24 * 3600.0
STEPS_PER_COLLECTION: Final = 50_000
_REAPING_ROUNDS: Final = 5
_REAPING_STEPS: Final = 200_000
_REAPING_TIME_S: Final = 3600.0
_CANCELLED_TIMERS: Final = 100  # more than this, and more than half: the heap is made anew


class SimulationStuck(Exception):
    """Nothing is ready, no timer runs, and what was waited for has not come: it never will."""


class SimulationTooLong(Exception):
    """The simulation took more steps or more virtual time than it may."""


class Network(Protocol):
    """What the loop hands connections and servers to."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> asyncio.AbstractServer: ...

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class _Entry(NamedTuple):
    """A callback that is ready."""

    kind: str
    callback: Callable[..., Any]
    handle: asyncio.Handle
    life: Life | None


class _Timer(NamedTuple):
    """A callback that will be ready; compared by the time, then by chance, then by its number."""

    when: float
    chance: float
    number: int
    entry: _Entry


def _refuse(name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{name}: a simulated loop does no real input or output")

    return refuse


class SimulatedLoop(asyncio.BaseEventLoop):
    """An asyncio event loop for tests; `steps` counts the callbacks it has run, `unhandled` keeps what they raised."""

    _stopping: bool  # asyncio's: `stop` was called

    def __init__(
        self,
        seed: int | Random = 0,
        *,
        trace: Trace | None = None,
        max_steps: int = MAX_STEPS,
        max_time_s: float = MAX_TIME_S,
    ) -> None:
        super().__init__()
        self._random = seed if isinstance(seed, Random) else Random(seed)
        self.trace = trace or Trace()
        self.steps = 0
        self.unhandled: list[BaseException] = []
        self._max_steps = max_steps
        self._max_time_s = max_time_s
        self._now_s = 0.0
        self._soon: deque[_Entry] = deque()
        self._timers: list[_Timer] = []
        self._cancelled_timers = 0
        self._numbers = count()
        self._tasks: WeakValueDictionary[int, SimulatedTask[Any]] = WeakValueDictionary()
        self._held: list[_Entry] = []  # callbacks of those that are paused, in their order
        self._buried: list[_Entry] = []  # callbacks of the dead
        self._graveyard: list[SimulatedTask[Any]] = []  # their tasks: a coroutine that is let go runs its finally
        self._is_reaping = False
        self._offload = SimulatedOffload(self._random)
        self._network: Network | None = None
        self._thread = threading.get_ident()

    # Time and callbacks.

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` after everything that is ready already."""
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(_Entry("soon", callback, handle, current_life(context)))
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` at a virtual time; who else is due then comes before or after it by chance."""
        self._check_open()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        entry = _Entry("timer", callback, handle, current_life(context))
        heapq.heappush(self._timers, _Timer(when, self._random.random(), next(self._numbers), entry))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`; there must not be a second thread."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a second thread called a simulated loop: use its offload or run_in_executor")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002
        func: Callable[[Unpack[Ts]], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Run `func` in place after a seeded delay: no thread, whatever the executor."""
        self._check_open()
        return self._offload.start(self, partial(func, *args))

    # Tasks and futures.

    def create_future(self) -> asyncio.Future[Any]:
        """A future that hashes by its number."""
        return SimulatedFuture(next(self._numbers), loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        """A task that hashes by its number and knows its host."""
        self._check_open()
        if self.get_task_factory() is not None:
            return super().create_task(coro, name=name, context=context, **options)
        number = next(self._numbers)
        name = name_coroutine(coro, number) if name is None else str(name)
        life = current_life(context)
        task: SimulatedTask[Any] = SimulatedTask(
            coro, number=number, life=life, loop=self, name=name, context=context, **options
        )
        self._tasks[number] = task
        return task

    def pending_tasks(self) -> list[SimulatedTask[Any]]:
        """The tasks that are not done, oldest first."""
        return [task for task in list(self._tasks.values()) if not task.done()]

    # Running.

    def run_forever(self) -> None:
        """Run until `stop`; raises `SimulationStuck` when there is nothing left to run or to wait for."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            super().run_forever()
        finally:
            if was_enabled:
                gc.enable()

    def _run_once(self) -> None:
        """One round of asyncio's loop: what is ready now, but not what becomes ready by it."""
        self._wake_timers()
        for _ in range(len(self._soon)):
            self._step(self._soon.popleft())

    def _wake_timers(self) -> None:
        timers = self._timers
        while timers and timers[0].entry.handle.cancelled():
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not self._soon and not self._stopping:
            if not timers:
                raise SimulationStuck(f"at {self._now_s:.6f} s nothing can happen any more{self._describe_pending()}")
            self._now_s = max(self._now_s, timers[0].when)
        while timers and timers[0].when <= self._now_s:
            self._soon.append(heapq.heappop(timers).entry)

    def _step(self, entry: _Entry) -> None:
        if entry.handle.cancelled():
            return
        if entry.life is not None and not self._is_reaping:
            if not entry.life.is_alive:
                self._buried.append(entry)
                return
            if entry.life.is_paused:
                self._held.append(entry)
                return
        self._count_step()
        self.trace.note(self._now_s, entry.kind, name_callback(entry.callback))
        entry.handle._run()

    def _count_step(self) -> None:
        if self.steps >= self._max_steps or self._now_s > self._max_time_s:
            taken = f"{self.steps} steps and {self._now_s:.3f} virtual seconds"
            raise SimulationTooLong(f"not done after {taken}{self._describe_pending()}")
        self.steps += 1
        if self.steps % STEPS_PER_COLLECTION == 0:
            gc.collect()

    def _describe_pending(self) -> str:
        tasks = [task for task in self.pending_tasks() if task.life is None or task.life.is_alive]
        return f"; {len(tasks)} pending tasks{describe_tasks(tasks)}"

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:  # noqa: ARG002
        """asyncio says that a timer was cancelled."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_CANCELLED_TIMERS, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if not timer.entry.handle.cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    # Pausing, dying, and the end.

    def pause(self, life: Life) -> None:
        """Run nothing of this life until `resume`. Time goes on: its timers are late then."""
        life.is_paused = True

    def resume(self, life: Life) -> None:
        """Let it go on with all that has become due meanwhile."""
        life.is_paused = False
        self._release(life, self._soon)

    def _release(self, life: Life, to: "deque[_Entry] | list[_Entry]") -> None:
        to.extend(entry for entry in self._held if entry.life is life)
        self._held = [entry for entry in self._held if entry.life is not life]

    def bury(self, life: Life) -> None:
        """A life ended: keep its tasks as they are, so that not a line of them runs before `reap`."""
        self._graveyard += [task for task in self.pending_tasks() if task.life is life]
        self._release(life, self._buried)

    def reap(self) -> list[SimulatedTask[Any]]:
        """End every task, those of dead hosts too, when all is over; gives back the living ones that refuse to end.

        It is not part of the trace, and exceptions of tasks are ignored now.
        """
        self.trace.stop()
        self._is_reaping = True
        self._soon.extend((*self._buried, *self._held))
        self._buried.clear()
        self._held.clear()
        for _ in range(_REAPING_ROUNDS):
            pending = self.pending_tasks()
            if not pending:
                break
            for task in pending:
                task.cancel()
            self._allow_reaping()
            with suppress(SimulationStuck, SimulationTooLong):
                self.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._allow_reaping()
        with suppress(SimulationStuck, SimulationTooLong):
            self.run_until_complete(self.shutdown_asyncgens())
        left = self.pending_tasks()
        for task in left:
            task._log_destroy_pending = False
        self._graveyard.clear()
        return [task for task in left if task.life is None or task.life.is_alive]

    def _allow_reaping(self) -> None:
        """Give what ends now some steps and time of its own, whatever was used up before."""
        self._max_steps = self.steps + _REAPING_STEPS
        self._max_time_s = self._now_s + _REAPING_TIME_S

    def close(self) -> None:
        """Forget everything."""
        super().close()
        self._soon.clear()
        self._timers.clear()
        self._held.clear()
        self._buried.clear()
        self._graveyard.clear()

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep in `unhandled`, and log, what a callback or a task nobody awaits raised, unless its host is dead."""
        task = context.get("task") or context.get("future")
        if self._is_reaping or (isinstance(task, SimulatedTask) and task.life and not task.life.is_alive):
            return
        error = context.get("exception")
        self.unhandled.append(error if error is not None else RuntimeError(context["message"]))
        super().default_exception_handler(context)

    def _check_open(self) -> None:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")

    # Input and output.

    def attach(self, network: Network) -> None:
        """Servers and connections from now on are this network's."""
        self._network = network

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any = None, port: Any = None, **options: Any
    ) -> asyncio.AbstractServer:
        """A server of the simulated network, on the host for which the caller runs."""
        return await self._attached().create_server(protocol_factory, host, port, **options)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any = None, port: Any = None, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection of the simulated network, from the host for which the caller runs."""
        return await self._attached().create_connection(protocol_factory, host, port, **options)

    def _attached(self) -> Network:
        if self._network is None:
            raise NotImplementedError("no simulated network is attached to this loop")
        return self._network

    add_reader = _refuse("add_reader")
    remove_reader = _refuse("remove_reader")
    add_writer = _refuse("add_writer")
    remove_writer = _refuse("remove_writer")
    add_signal_handler = _refuse("add_signal_handler")
    connect_accepted_socket = _refuse("connect_accepted_socket")
    connect_read_pipe = _refuse("connect_read_pipe")
    connect_write_pipe = _refuse("connect_write_pipe")
    create_datagram_endpoint = _refuse("create_datagram_endpoint")
    create_unix_connection = _refuse("create_unix_connection")
    create_unix_server = _refuse("create_unix_server")
    getaddrinfo = _refuse("getaddrinfo")
    getnameinfo = _refuse("getnameinfo")
    sendfile = _refuse("sendfile")
    sock_accept = _refuse("sock_accept")
    sock_connect = _refuse("sock_connect")
    sock_recv = _refuse("sock_recv")
    sock_recv_into = _refuse("sock_recv_into")
    sock_recvfrom = _refuse("sock_recvfrom")
    sock_recvfrom_into = _refuse("sock_recvfrom_into")
    sock_sendall = _refuse("sock_sendall")
    sock_sendfile = _refuse("sock_sendfile")
    sock_sendto = _refuse("sock_sendto")
    start_tls = _refuse("start_tls")
    subprocess_exec = _refuse("subprocess_exec")
    subprocess_shell = _refuse("subprocess_shell")
