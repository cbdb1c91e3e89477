"""A real broker inside this process: a node on a loop and a thread of its own, with a data directory that goes with it.

Not a mock: the node is the one that `barnabas serve` runs, on a real port, and any Kafka client can connect.
"""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError, RequestTimedOut
from barnabas.node import Node, Ports, check_protected
from barnabas.runtime.dir_lock import DirLock
from barnabas.runtime.loop import loop_factory
from barnabas.services.settings.broker_config import BrokerConfig

if TYPE_CHECKING:
    from barnabas.client import Bus
    from barnabas.services.broker import Broker

START_TIMEOUT_S: Final = 30.0
# The data lives no longer than the process, so there is nothing that a sync would save; and a test has no more members
# to wait for than those that are there.
DEFAULTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "log.flush.policy": "os",
    "group.initial.rebalance.delay.ms": "0",
}


class EmbeddedBroker:
    """A broker in this process. Use it as a context manager, or `start` and `stop` it."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, data_dir: str | None = None) -> None:
        self._settings = {**DEFAULTS, **(settings or {})}
        self._data_dir = data_dir
        self._own_dir: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._bus: Bus | None = None

    @property
    def bootstrap(self) -> str:
        """What a client connects to: ``bootstrap.servers``."""
        if self._node is None:
            raise BarnabasError("the embedded broker is not running: start it first")
        host, port = self._node.address
        return f"{host}:{port}"

    def bootstrap_of(self, listener: str) -> str:
        """What a client of this listener connects to."""
        if self._node is None:
            raise BarnabasError("the embedded broker is not running: start it first")
        host, port = self._node.addresses[listener]
        return f"{host}:{port}"

    @property
    def broker(self) -> "Broker | None":
        """The node's parts, for tests that look inside; None when it is not running."""
        return None if self._node is None else self._node.broker

    @property
    def http(self) -> str:
        """Where it serves HTTP, as in ``http://127.0.0.1:40123``: with the setting ``http.listener``."""
        if self._node is None or self._node.http.address is None:
            raise BarnabasError("the embedded broker serves no HTTP: set http.listener, as in 127.0.0.1:0")
        host, port = self._node.http.address
        return f"http://{host}:{port}"

    @property
    def grpc(self) -> str:
        """What a gRPC client connects to, with ``grpc.listener`` set."""
        if self._node is None or self._node.edges.grpc_address is None:
            raise BarnabasError("the embedded broker serves no gRPC: start it with grpc.listener")
        host, port = self._node.edges.grpc_address
        return f"{host}:{port}"

    @property
    def data_dir(self) -> str:
        """Where its data is."""
        return self._data_dir or self._own_dir or ""

    @property
    def bus(self) -> "Bus":
        """A client of this broker, made on first use and closed with it."""
        if self._bus is None:
            from barnabas.client import Bus  # noqa: PLC0415 - whoever brings their own client need not load ours

            self._bus = Bus(self.bootstrap, config={"security.protocol": "plaintext"})  # whatever a client file says
        return self._bus

    def start(self) -> "EmbeddedBroker":
        """Start, and return when clients can connect."""
        check_protected(BrokerConfig.from_properties(self._settings))  # refused before there is anything to clean up
        if self._data_dir is None:
            self._own_dir = tempfile.mkdtemp(prefix="barnabas-")
        config = BrokerConfig.from_properties({**self._settings, "log.dirs": self.data_dir})
        self._thread = threading.Thread(target=self._run, args=(config,), name="barnabas-embedded", daemon=True)
        self._thread.start()
        if not self._is_ready.wait(START_TIMEOUT_S):
            raise RequestTimedOut(f"the embedded broker did not start within {START_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            self.stop()
            raise _first(self._failure)
        return self

    def stop(self) -> None:
        """Stop, and remove the data directory if it is this broker's own."""
        if self._bus is not None:
            self._bus.close()
            self._bus = None
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._loop is not None and self._node is not None and thread.is_alive():
                self._loop.call_soon_threadsafe(self._node.stop)
            thread.join()
        self._node = None
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)

    def __enter__(self) -> "EmbeddedBroker":
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self, config: BrokerConfig) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve(config))
        except BaseException as error:
            self._failure = error
        finally:
            self._is_ready.set()

    async def _serve(self, config: BrokerConfig) -> None:
        self._loop = asyncio.get_running_loop()
        ports = Ports.of_system(config)
        lock = DirLock(self.data_dir)
        lock.take()
        try:
            await Node(config, ports).run(self._note_ready)
        finally:
            lock.release()
            ports.close()

    def _note_ready(self, node: Node) -> None:
        self._node = node
        self._is_ready.set()


@contextmanager
def embedded(settings: Mapping[str, str] | None = None, *, data_dir: str | None = None) -> Iterator[EmbeddedBroker]:
    """A broker for the time of a ``with`` block, with Kafka's names for `settings`."""
    with EmbeddedBroker(settings, data_dir=data_dir) as broker:
        yield broker


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
