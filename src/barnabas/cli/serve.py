"""``barnabas serve``: one node in the foreground, until SIGTERM or SIGINT."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Everything made while starting stays, so looking for garbage among it is time lost, and a good part of it.
gc.disable()

from barnabas.config import load  # noqa: E402
from barnabas.core.errors import BarnabasError, DataDirLost, InvalidConfig, StorageError  # noqa: E402
from barnabas.node import Node, Ports, check_data_dirs  # noqa: E402
from barnabas.runtime.descriptors import raise_limit  # noqa: E402
from barnabas.runtime.dir_lock import DirLock  # noqa: E402
from barnabas.runtime.garbage import Collector  # noqa: E402
from barnabas.runtime.log_lines import clean  # noqa: E402
from barnabas.runtime.loop import loop_factory  # noqa: E402
from barnabas.services.settings.broker_config import BrokerConfig  # noqa: E402

SWITCH_S = 0.001
"""How long a thread keeps the interpreter when another one wants it. Python's own 5 ms is what an acknowledgement would
wait for when its sync begins, and again when it is done, while the loop is busy.
"""


def serve(file: Path | None, sets: Sequence[str], overrides: Mapping[str, str]) -> None:
    """Run a node with this configuration until SIGTERM or SIGINT."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(clean)  # also what others say here, of an exception with a client's text in it, say
    config = load(file, sets, os.environ, overrides)
    if config.ignored:
        logging.getLogger("barnabas").warning(
            "these settings are not supported and are ignored: %s", ", ".join(config.ignored)
        )
    check_data_dirs(config)  # before one is made
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
            runner.run(_run(config))
    except* BarnabasError as group:
        raise _first(group.subgroup(DataDirLost) or group) from None
    except* OSError as group:
        raise StorageError(str(_first(group))) from None
    finally:
        lock.release()


async def _run(config: BrokerConfig) -> None:
    ports = Ports.of_system(config)
    node = Node(config, ports)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop)
    try:
        await node.run(_say_ready)
    finally:
        ports.close()


def _say_ready(node: Node) -> None:
    assert node.broker is not None
    Collector().start()
    addresses = " and ".join(f"{host}:{port}" for host, port in node.addresses.values())
    print(
        f"barnabas node {node.config.node_id} is ready on {addresses} (data in {node.config.log_dirs[0]})",
        flush=True,
    )


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
