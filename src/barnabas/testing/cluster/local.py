"""A cluster of processes on this machine: what can be done with it, from any process that knows its directory.

Every change is in the cluster's file before it is acted on or as soon as it is done, so that a command that is killed
leaves a cluster that the next command understands.
"""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.client.cluster_admin import ClusterAdmin
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, BrokerIdNotRegistered, RequestTimedOut
from barnabas.core.uuids import parse_id
from barnabas.testing.cluster.directory import (
    CONTROLLER,
    ClusterDirectory,
    ClusterState,
    ConsoleState,
    NodeState,
    last_line,
)
from barnabas.testing.cluster.forming import check_settings, format_node, new_state, one_more
from barnabas.testing.cluster.ports import HOST, find_free, is_free
from barnabas.testing.cluster.processes import POLL_S, Condition, ProcessKey
from barnabas.testing.cluster.removing import check_majority, check_replicas, left_short
from barnabas.testing.cluster.starting import Starter

START_TIMEOUT_S: Final = 60.0
STOP_GRACE_S: Final = 30.0
MOST_VOTERS: Final = 5
"""A node that is added becomes a voter while there are fewer: more make each decision slower, and little safer."""
CONSOLE_PORT: Final = 9645
_READY: Final = b" is ready on "


def condition_of(node: NodeState) -> Condition:
    """What the process of a node does."""
    return Condition.STOPPED if node.process is None else node.process.condition


def _is_running(process: ProcessKey | None) -> bool:
    return process is not None and process.condition is not Condition.STOPPED


def _console_address(state: ClusterState, earlier: ConsoleState | None) -> str:
    """Where a console listens if nobody says: where it did, at its usual port, or at a free one."""
    if earlier is not None:
        return earlier.listen
    port = CONSOLE_PORT if CONSOLE_PORT not in state.ports and is_free(CONSOLE_PORT) else find_free(1, state.ports)[0]
    return f"{HOST}:{port}"


class LocalCluster:
    """A cluster in a directory. `say` hears of each step."""

    def __init__(self, path: Path, starter: Starter, say: Callable[[str], None] = lambda _: None) -> None:
        self.directory = ClusterDirectory(path)
        self._starter = starter
        self._say = say

    @property
    def state(self) -> ClusterState:
        return self.directory.read()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(each.bootstrap for each in self.state.nodes)

    @property
    def http(self) -> list[str]:
        """Where the nodes serve HTTP, those that do."""
        return [f"http://{each.http}" for each in self.state.nodes if each.http is not None]

    @property
    def console_url(self) -> str | None:
        """Where the console is; None if it does not run."""
        console = self.state.console
        return console.url if console is not None and _is_running(console.process) else None

    def running(self) -> list[NodeState]:
        """The nodes whose process runs and is not paused."""
        return [each for each in self.state.nodes if condition_of(each) is Condition.RUNNING]

    def admin(self, timeout_s: float = 30.0) -> ClusterAdmin:
        """Administration over the nodes that run; refused if none does."""
        running = self.running()
        if not running:
            raise BarnabasError("no node of the cluster is running: start one with 'barnabas cluster start'")
        return ClusterAdmin(Settings(",".join(each.bootstrap for each in running)), timeout_s)

    # Starting

    def create(
        self,
        count: int,
        *,
        port: int | None = None,
        racks: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        with_http: bool = False,
    ) -> None:
        """Make a cluster of so many nodes, at these addresses if any are named; none is started."""
        state = new_state(count, port=port, racks=racks, settings=settings, hosts=hosts, with_http=with_http)
        check_settings(self.directory, state)
        self.directory.create(state)
        for node in state.nodes:
            format_node(self.directory, state, node, voters=True)

    def start(self, *node_ids: int) -> None:
        """Start these nodes, or all; returns when every one of them serves clients. Those that run are left alone."""
        begun = self._spawn(node_ids or [each.node_id for each in self.state.nodes])
        if not self._has_majority():
            for node_id in begun:
                self._say(f"node {node_id}: started; it will serve when a majority of the voters runs")
            return
        for node_id, (process, position) in begun.items():
            self._wait_ready(f"node {node_id}", self.directory.log(node_id), process, position)
            self._say(f"node {node_id}: ready on {self.state.node(node_id).bootstrap}")
        self.wait_serving(begun)

    def _spawn(self, node_ids: Iterable[int]) -> dict[int, tuple[ProcessKey, int]]:
        """Start the processes that do not run; each with where its log ended until then."""
        begun = {}
        with self.directory.changing() as state:
            wanted = [state.node(node_id) for node_id in node_ids]
            for node in wanted:
                if condition_of(node) is not Condition.STOPPED:
                    self._say(f"node {node.node_id}: {condition_of(node).value} already")
                    continue
                self.directory.write_properties(state, node)
                log = self.directory.log(node.node_id)
                position = log.stat().st_size if log.exists() else 0
                config = str(self.directory.properties(node.node_id))
                pid = self._starter.start([sys.executable, "-m", "barnabas.cli.main", "serve", "--config", config], log)
                node.process = ProcessKey.of(pid) or ProcessKey(pid, "")
                begun[node.node_id] = node.process, position
        return begun

    def _has_majority(self) -> bool:
        voters = [each for each in self.state.nodes if each.is_voter]
        return 2 * sum(condition_of(each) is Condition.RUNNING for each in voters) > len(voters)

    def _wait_ready(self, what: str, log: Path, process: ProcessKey, position: int) -> None:
        """Return when a process has written that it is ready, after a position of its log."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            has_ended = process.condition is Condition.STOPPED
            with log.open("rb") as file:
                file.seek(position)
                if _READY in file.read():
                    return
            if has_ended:
                raise BarnabasError(f"{what} did not start: {last_line(log)} (log: {log})")
            if time.monotonic() > deadline:
                raise RequestTimedOut(
                    f"{what} is not ready after {START_TIMEOUT_S:.0f} s: {last_line(log)} (log: {log})"
                )
            time.sleep(POLL_S)

    def wait_serving(self, node_ids: Iterable[int]) -> None:
        """Return when every node that runs knows that clients may use these."""
        wanted = set(node_ids)
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.running():
            while True:
                brokers = ClusterAdmin(Settings(node.bootstrap)).describe().brokers
                missing = wanted - {each.node_id for each in brokers if not each.is_fenced}
                if not missing:
                    break
                if time.monotonic() > deadline:
                    raise RequestTimedOut(
                        f"node {node.node_id} does not know of node {min(missing)} as one that serves"
                    )
                time.sleep(POLL_S)

    # The console

    def start_console(self, listen: str | None = None) -> str:
        """Start the web console on the HTTP of all nodes, unless it runs; returns where it is, once pages answer."""
        with self.directory.changing() as state:
            console = state.console
            if console is not None and _is_running(console.process):
                self._say(f"console: running already on {console.url}")
                return console.url
            if not self.http:
                raise BarnabasError("the nodes serve no HTTP, which the console needs: make a cluster that does")
            console = state.console = ConsoleState(listen=listen or _console_address(state, console))
            log = self.directory.console_log
            position = log.stat().st_size if log.exists() else 0
            apis = [part for url in self.http for part in ("--api", url)]
            command = [sys.executable, "-m", "barnabas.cli.main", "console", *apis, "--listen", console.listen]
            pid = self._starter.start(command, log)
            process = console.process = ProcessKey.of(pid) or ProcessKey(pid, "")
        self._wait_ready("the console", log, process, position)
        self._say(f"console: ready on {console.url}")
        return console.url

    def stop_console(self) -> None:
        """Stop the console, if it runs."""
        console = self.state.console
        if console is not None and console.process is not None:
            console.process.end(STOP_GRACE_S)

    # Signals

    def kill(self, node_id: int) -> None:
        """End a node as a power cut does."""
        self._running_process(node_id).kill()

    def stop(self, node_id: int) -> None:
        """Have a node leave cleanly: what it leads is led by others then, where they have replicas."""
        self._running_process(node_id).end(STOP_GRACE_S)

    def pause(self, node_id: int) -> None:
        """Freeze a node, as a long stall does: it keeps its connections, and answers nothing."""
        self._running_process(node_id).send(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""
        self._running_process(node_id).send(signal.SIGCONT)

    def _running_process(self, node_id: int) -> ProcessKey:
        node = self.state.node(node_id)
        if node.process is None or condition_of(node) is Condition.STOPPED:
            raise BarnabasError(f"node {node_id} is not running: start it with 'barnabas cluster start {node_id}'")
        return node.process

    def stop_all(self) -> None:
        """Have every node stop cleanly, all at the same time; the console first."""
        self.stop_console()
        processes = [each.process for each in self.state.nodes if each.process is not None]
        for process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
        for process in processes:
            process.end(STOP_GRACE_S)

    # Growing and shrinking

    def add(self, rack: str | None = None) -> int:
        """One more node: formatted, started, and a voter while there are few; returns its id."""
        admin = self.admin()
        admin.quorum()  # somebody must lead, to let it in
        with self.directory.changing() as state:
            node = one_more(state, rack)
            format_node(self.directory, state, node, voters=False)
        self.start(node.node_id)
        if len(admin.quorum().voters) < MOST_VOTERS:
            admin.add_voter(
                node.node_id,
                parse_id(node.directory_id),
                listener=CONTROLLER,
                host=node.host,
                port=node.controller_port,
            )
            with self.directory.changing() as state:
                state.node(node.node_id).is_voter = True
            self._say(f"node {node.node_id}: votes now")
        return node.node_id

    def remove(self, node_id: int, *, is_forced: bool = False) -> None:
        """Take a node out of the cluster for good; its data stays on disk."""
        node = self.state.node(node_id)
        if len(self.state.nodes) == 1:
            raise BarnabasError(f"node {node_id} is the last one: use 'barnabas cluster down'")
        others = [each for each in self.running() if each.node_id != node_id]
        if not others:
            raise BarnabasError(f"no node but {node_id} is running: start the others first")
        admin = ClusterAdmin(Settings(",".join(each.bootstrap for each in others)))
        quorum, before = admin.quorum(), admin.describe()
        if not is_forced:
            check_majority(node_id, quorum, {each.node_id for each in others})
            check_replicas(node_id, before)
        if quorum.voter(node_id) is not None:
            admin.remove_voter(node_id)
            self._say(f"node {node_id}: votes no more")
        if node.process is not None:
            node.process.end(STOP_GRACE_S)
            self._say(f"node {node_id}: stopped")
        with contextlib.suppress(BrokerIdNotRegistered):  # it never came as far as that, or a removal was interrupted
            admin.unregister(node_id)
        with self.directory.changing() as state:
            state.nodes.remove(state.node(node_id))
        short = left_short(node_id, before)
        if short is not None:
            self._say(short)
