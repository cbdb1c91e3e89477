"""``barnabas serve``: one node in the foreground, or several that are supervised as one, until SIGTERM or SIGINT."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

# Everything made while starting stays, so looking for garbage among it is time lost, and a good part of it.
gc.disable()

from barnabas.cli import output, signals  # noqa: E402
from barnabas.cli.processes.plan import check_count  # noqa: E402
from barnabas.cli.refusals import exit_code_of, say_refused  # noqa: E402
from barnabas.cli.service_manager import READY, STOPPING, notify  # noqa: E402
from barnabas.config import load  # noqa: E402
from barnabas.core.errors import BarnabasError, DataDirLost, InvalidConfig, StorageError  # noqa: E402
from barnabas.node import Node, Ports, check_data_dirs, check_protected  # noqa: E402
from barnabas.runtime.descriptors import raise_limit  # noqa: E402
from barnabas.runtime.dir_lock import DirLock  # noqa: E402
from barnabas.runtime.garbage import Collector  # noqa: E402
from barnabas.runtime.log_lines import JsonLines, clean  # noqa: E402
from barnabas.runtime.loop import loop_factory  # noqa: E402
from barnabas.services.settings.broker_config import BrokerConfig  # noqa: E402
from barnabas.services.settings.catalogue.logging_settings import JSON, parse_levels  # noqa: E402
from barnabas.services.settings.loggers import set_levels  # noqa: E402

if TYPE_CHECKING:
    from barnabas.cli.console_process import ConsoleProcess

HTTP_DEFAULT = "127.0.0.1:9644"
CONSOLE_DEFAULT = "127.0.0.1:9645"
SWITCH_S = 0.001
"""How long a thread keeps the interpreter when another one wants it. Python's own 5 ms is what an acknowledgement would
wait for when its sync begins, and again when it is done, while the loop is busy.
"""


class ServeOptions(NamedTuple):
    """The options of the command."""

    config: Path | None = None
    data_dir: Path | None = None
    listen: str | None = None
    advertise: str | None = None
    node_id: int | None = None
    rack: str | None = None
    settings: tuple[str, ...] = ()
    processes: int = 1
    console: bool = False
    console_listen: str | None = None

    @classmethod
    def of_texts(cls, given: Mapping[str, Sequence[str]]) -> Self:
        """The options of a command line, by their names here; of one that is repeated the last counts, as in `main`."""
        last = {name: values[-1] for name, values in given.items()}
        return cls(
            config=Path(last["config"]) if "config" in last else None,
            data_dir=Path(last["data_dir"]) if "data_dir" in last else None,
            listen=last.get("listen"),
            advertise=last.get("advertise"),
            node_id=int(last["node_id"]) if "node_id" in last else None,
            rack=last.get("rack"),
            settings=tuple(given.get("settings", ())),
            processes=int(last.get("processes", 1)),
            console="console" in last,
            console_listen=last.get("console_listen"),
        )


def serve_plainly(options: ServeOptions) -> int:
    """Run a node as the command `serve` does; returns the exit code."""
    signals.interrupt_at_sigterm()
    try:
        with output.quiet_pipe():
            serve_with(options)
    except BarnabasError as refusal:
        say_refused(refusal)
        return exit_code_of(refusal)
    return 0


def serve_with(options: ServeOptions) -> None:
    """Run a node with these options."""
    listen, advertise, data_dir, node_id = options.listen, options.advertise, options.data_dir, options.node_id
    overrides = {
        "log.dirs": None if data_dir is None else str(data_dir),
        "listeners": None if listen is None else parse_address("--listen", listen),
        "advertised.listeners": None if advertise is None else parse_address("--advertise", advertise),
        "node.id": None if node_id is None else str(node_id),
        "broker.rack": options.rack,
    }
    given = {name: text for name, text in overrides.items() if text is not None}
    # The ports after that of the first node's HTTP are those of the others.
    usual = CONSOLE_DEFAULT if options.processes == 1 else f"127.0.0.1:{9644 + options.processes}"
    console = options.console_listen or usual if options.console else None
    serve(options.config, options.settings, given, processes=options.processes, console_listen=console)


def serve(
    file: Path | None,
    sets: Sequence[str],
    overrides: Mapping[str, str],
    *,
    processes: int = 1,
    console_listen: str | None = None,
) -> None:
    """Run a node, or several, with this configuration until SIGTERM or SIGINT."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(clean)  # also what others say here, of an exception with a client's text in it, say
    config = load(file, sets, os.environ, overrides)
    if config.logging.log_format == JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    set_levels(parse_levels(config.logging.log_levels))
    if config.ignored:
        logging.getLogger("barnabas").warning(
            "these settings are not supported and are ignored: %s", ", ".join(config.ignored)
        )
    check_data_dirs(config)  # before one is made
    check_protected(config)
    check_count(config, processes)
    config = _with_http(config)
    console = None
    if console_listen is not None:
        from barnabas.cli.console_process import ConsoleProcess

        console = ConsoleProcess(console_listen)
    if processes > 1:
        from barnabas.cli.processes.serving import serve_processes

        serve_processes(config, processes, serve_node, console)
    elif console is not None:
        _serve_with_console(config, console)
    else:
        serve_node(config, _say_ready)


def _serve_with_console(config: BrokerConfig, console: "ConsoleProcess") -> None:
    def begin(node: Node) -> None:
        console.start([node.http.address], lambda: _say_ready(node))

    try:
        serve_node(config, begin)
    finally:
        console.stop()


def _with_http(config: BrokerConfig) -> BrokerConfig:
    """The settings with HTTP on this machine alone, unless they say where: if that address is taken, without."""
    if config.http.http_listener is not None:
        return config
    http = msgspec.structs.replace(config.http, http_listener=HTTP_DEFAULT, is_given_by_default=True)
    return msgspec.structs.replace(config, http=http)


def serve_node(config: BrokerConfig, on_ready: Callable[[Node], None]) -> None:
    """Run one node in this process; calls back once clients can connect."""
    raise_limit()
    sys.setswitchinterval(SWITCH_S)
    lock = DirLock(config.log_dirs[0])
    lock.take()
    if lock.others_may_enter():
        logging.getLogger("barnabas").warning(
            "other users of this machine can read %s; run chmod -R go= on it", config.log_dirs[0]
        )
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(config, on_ready))
    except* BarnabasError as group:
        raise _first(group.subgroup(DataDirLost) or group) from None
    except* OSError as group:
        raise StorageError(str(_first(group))) from None
    finally:
        lock.release()


async def _run(config: BrokerConfig, on_ready: Callable[[Node], None]) -> None:
    ports = Ports.of_system(config)
    node = Node(config, ports)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, node)
    try:
        await node.run(lambda node: _begin(node, on_ready))
    finally:
        ports.close()


def _stop(node: Node) -> None:
    notify(STOPPING, "hands over what it leads")
    node.stop()


def _begin(node: Node, on_ready: Callable[[Node], None]) -> None:
    assert node.broker is not None
    Collector().start()
    on_ready(node)


def _say_ready(node: Node) -> None:
    addresses = " and ".join(f"{host}:{port}" for host, port in node.addresses.values())
    print(
        f"barnabas node {node.config.node_id} is ready on {addresses} (data in {node.config.log_dirs[0]})",
        flush=True,
    )
    notify(READY, f"ready on {addresses}")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def parse_address(option: str, text: str) -> str:
    """HOST:PORT as a listener in Kafka's notation."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidConfig(f"{option} must be HOST:PORT, not {text!r}")
    return f"PLAINTEXT://{host}:{port}"
