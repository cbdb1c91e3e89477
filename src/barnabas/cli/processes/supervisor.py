"""Starts processes, keeps them running, and stops them all: those after the first, and then the first.

The first is the controller of the others, or their way to it: while it runs, they can hand over what they lead. A
process that dies is started again, after a pause that grows while it keeps dying. Before all are ready for the first
time nothing is started again: what a start is refused for, the process itself has said, and its exit code is that of
the whole. Later only an exit code that a start would end with again (a usage error, a lost data directory) ends all.

Processes are forked, so nothing here may have threads, or an event loop.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final

from barnabas.cli import signals
from barnabas.cli.processes.child import ServeNode, parse_ready, run_child
from barnabas.cli.processes.plan import with_cluster_id
from barnabas.cli.refusals import EX_IOERR, WRONG_USAGE
from barnabas.runtime.disk import OsDisk
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage import meta_properties

log = logging.getLogger("barnabas.processes")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""Who ran for so long is started again after the first pause, and not after a longer one."""
GRACE_S: Final = 30.0
"""For processes to stop, before they are killed. A node takes some ten seconds at most to hand over what it leads."""
HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
STAYS_SO: Final = frozenset({WRONG_USAGE, EX_IOERR})


@dataclass(slots=True)
class _Process:
    """One process: the node it is, and whether it runs."""

    number: int
    config: BrokerConfig
    pid: int | None = None
    status: int | None = None  # the pipe in which it says that it is ready
    was_ready: bool = False
    started_at: float = 0.0
    due_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S

    def __str__(self) -> str:
        return f"process {self.number} (node {self.config.node_id})"

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it runs: its id is its own until it is waited for."""
        if self.pid is not None:
            os.kill(self.pid, number)


class Supervisor:
    """The processes of one machine. `run` starts them, and returns when all of them have ended."""

    def __init__(
        self, nodes: Sequence[BrokerConfig], serve_node: ServeNode, on_up: Callable[[Sequence[BrokerConfig]], None]
    ) -> None:
        """`on_up` is called when all are ready for the first time, with the settings that they run with."""
        self._processes = [_Process(number, config) for number, config in enumerate(nodes, start=1)]
        self._serve_node = serve_node
        self._on_up = on_up
        self._is_up = False
        self._code: int | None = None  # what to exit with; None while nobody is to stop
        self._kill_at: float | None = None
        self._is_first_told = False
        self._selector = selectors.PollSelector()  # unlike epoll it has nothing that a fork would share
        self._lifeline = os.pipe()
        self._woken, self._waking = socket.socketpair()

    def run(self) -> int:
        """Run the processes until SIGTERM or SIGINT; returns the exit code."""
        for end in (self._woken, self._waking):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        for number in HANDLED:
            signal.signal(number, _note)
        signal.set_wakeup_fd(self._waking.fileno())
        try:
            while self._code is None or self._running:
                self._start_due()
                self._wait()
                self._reap()
                self._go_on_stopping()
        finally:
            for process in self._running:
                process.send(signal.SIGKILL)
            signal.set_wakeup_fd(-1)
        return self._code

    @property
    def _running(self) -> list[_Process]:
        return [process for process in self._processes if process.pid is not None]

    # Starting

    def _start_due(self) -> None:
        if self._code is not None:
            return
        for process in self._processes:
            if process.pid is None and process.due_at <= time.monotonic() and self._can_start(process):
                self._start(process)

    def _can_start(self, process: _Process) -> bool:
        """Whether a process can be started: once the first has been ready, which has formed their cluster by then."""
        first = self._processes[0]
        if process is first:
            return True
        if first.was_ready and process.config.cluster_id is None:
            found = meta_properties.read(OsDisk(), first.config.log_dirs[0])
            process.config = with_cluster_id(process.config, found)
        return first.was_ready

    def _start(self, process: _Process) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        status, telling = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # until it is clear whose they are
        pid = os.fork()
        if pid == 0:
            self._be_child(process, status, telling)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.close(telling)
        process.pid, process.status, process.started_at = pid, status, time.monotonic()
        self._selector.register(status, selectors.EVENT_READ, process)

    def _be_child(self, process: _Process, status: int, telling: int) -> None:
        """Go on as the process that was just forked; never returns."""
        code = 1
        try:
            os.setsid()  # Ctrl-C is for the supervisor, which then stops this one when it is its turn
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signals.leave_at_once()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            for end in (self._woken, self._waking):
                end.close()
            for descriptor in (status, self._lifeline[1], *(each.status for each in self._processes)):
                if descriptor is not None:
                    os.close(descriptor)
            code = run_child(process.config, self._serve_node, lifeline=self._lifeline[0], status=telling)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    # Watching

    def _wait(self) -> None:
        """Wait until something happens, or is due."""
        dues = [each.due_at for each in self._processes if each.pid is None and self._can_start(each)]
        if self._code is not None:
            dues = [] if self._kill_at is None else [self._kill_at]
        timeout_s = max(min(dues) - time.monotonic(), 0) if dues else None
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    received = self._woken.recv(4096)
                    if signal.SIGTERM in received or signal.SIGINT in received:
                        self._stop(0)
            else:
                self._hear(key.data)

    def _hear(self, process: _Process) -> None:
        """Take what a process says of its start, or that it says nothing any more."""
        assert process.status is not None
        said = os.read(process.status, 65536)
        self._selector.unregister(process.status)
        os.close(process.status)
        process.status = None
        if not said:
            return
        process.config = parse_ready(said, process.config)
        if process.was_ready:
            log.warning("%s is ready again", process)
        process.was_ready = True
        if not self._is_up and all(each.was_ready for each in self._processes):
            self._is_up = True
            self._on_up([each.config for each in self._processes])

    def _reap(self) -> None:
        for process in self._running:
            assert process.pid is not None
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                process.pid = None
                if process.status is not None:
                    self._hear(process)
                self._note_end(process, os.waitstatus_to_exitcode(status))

    def _note_end(self, process: _Process, code: int) -> None:
        """Decide what the end of a process means: a negative code is that of a signal."""
        if self._code is not None:
            return
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
        if not self._is_up and code:
            if code < 0:
                log.error("%s %s before it was ready", process, how)
            self._stop(code if code > 0 else 1)
            return
        if code in STAYS_SO:
            log.error("%s %s, which starting it again does not help: all processes are stopped", process, how)
            self._stop(code)
            return
        if time.monotonic() - process.started_at >= STEADY_S:
            process.pause_s = FIRST_PAUSE_S
        log.warning("%s %s; it is started again in %g s", process, how, process.pause_s)
        process.due_at = time.monotonic() + process.pause_s
        process.pause_s = min(2 * process.pause_s, LONGEST_PAUSE_S)

    # Stopping

    def _stop(self, code: int) -> None:
        """Have all processes stop; called again it changes nothing."""
        if self._code is None:
            self._code = code
            self._tell_to_stop(self._processes[1:])

    def _tell_to_stop(self, processes: Sequence[_Process]) -> None:
        self._kill_at = time.monotonic() + GRACE_S
        for process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)

    def _go_on_stopping(self) -> None:
        """Stop the first process when it is the last one, and kill those that take too long."""
        if self._code is None or self._kill_at is None:
            return
        others = [process for process in self._running if process.number > 1]
        if time.monotonic() >= self._kill_at:
            for process in others or self._running:
                log.error("%s did not stop within %g s, and is killed", process, GRACE_S)
                process.send(signal.SIGKILL)
            self._kill_at = time.monotonic() + GRACE_S
        elif not others and not self._is_first_told:
            self._is_first_told = True
            self._tell_to_stop(self._processes[:1])


def _note(_number: int, _frame: FrameType | None) -> None:
    """A signal is taken up where `Supervisor` waits: the interpreter has written its number there."""
