"""What runs in each process: one node, until it is told to stop, or until whoever started it is gone.

The supervisor holds the other end of a pipe, and nobody else does. When it ends, in whatever way, the pipe does, and
this process ends at once: what was acknowledged is on disk. A thread watches, so that neither a loop that is busy nor a
start that takes long is in the way.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from barnabas.cli import output
from barnabas.cli.refusals import exit_code_of, say_refused
from barnabas.core.errors import BarnabasError
from barnabas.node import Node
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener

ServeNode: TypeAlias = Callable[[BrokerConfig, Callable[[Node], None]], None]
_BUG: Final = 1


def run_child(config: BrokerConfig, serve_node: ServeNode, *, lifeline: int, status: int) -> int:
    """Run a node; returns the exit code. `lifeline` ends with the supervisor, `status` tells it of the start."""
    for handler in logging.getLogger().handlers:
        # All write to the same place: each line says whose it is.
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s node {config.node_id} %(name)s %(message)s"))
    threading.Thread(target=_end_with, args=[lifeline], name="lifeline", daemon=True).start()
    try:
        with output.quiet_pipe():
            serve_node(config, lambda node: _tell_ready(node, status))
    except BarnabasError as refusal:
        say_refused(refusal)
        return exit_code_of(refusal)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return _BUG
    return 0


def _end_with(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    os._exit(_BUG)


def _tell_ready(node: Node, status: int) -> None:
    os.write(status, json.dumps({"listeners": node.addresses, "http": node.http.address}).encode())
    os.close(status)


def parse_ready(said: bytes, config: BrokerConfig) -> BrokerConfig:
    """The settings of a node with the ports that it has: any free one the first time is that one from then on.

    HTTP that it does not serve, because its usual address is taken, it need not try to serve again.
    """
    told = json.loads(said)
    bound = {name: port for name, (_, port) in told["listeners"].items()}
    listeners = tuple(Listener(each.name, each.host, bound[each.name]) for each in config.listeners)
    http = None if told["http"] is None else str(Listener("HTTP", *told["http"])).partition("://")[2]
    return msgspec.structs.replace(
        config, listeners=listeners, http=msgspec.structs.replace(config.http, http_listener=http)
    )
