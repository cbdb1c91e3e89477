"""What each of several processes on one machine is: made of the settings of the first, and of what is on its disk.

Process 1 is the node that the settings describe, on the data directory that they name: it is the very node that
`barnabas serve` without `--processes` would be, with a listener for the other processes. Those are brokers alone, with
the next node ids and the next ports, of HTTP and gRPC, too. Their data is in `processes/2`, `processes/3`, ... of that
directory. Their rack is the host unless one is named, so that placement keeps the replicas of a partition on
different hosts.

The port at which process 1 listens for the others is chosen at the first start, and written down beside their data.
"""

import errno
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from barnabas.core.errors import AddressNotAvailable, InvalidConfig, StorageError
from barnabas.core.metadata.formation import MetaProperties
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.broker_names import rivals
from barnabas.services.settings.catalogue.http_settings import HttpSettings, parse_http_listener
from barnabas.services.settings.catalogue.listener import Listener

MOST: Final = 64
"""Processes of one machine: more than any has cores for Python to use well."""
DIRECTORY: Final = "processes"  # in the data directory; no partition has this name, which would end in a number
PORT_FILE: Final = "controller.port"
LOCAL: Final = "127.0.0.1"
CONTROLLER: Final = "CONTROLLER"
HTTP: Final = "HTTP"
_MAX_PORT: Final = 65535
_ANY_HOST: Final = ("", "0.0.0.0", "::")
_NUMBER: Final = re.compile(r"[1-9][0-9]*")


def check_count(config: BrokerConfig, count: int) -> None:
    """Refuse a number of processes that these settings, or the data on disk, cannot have."""
    if not 1 <= count <= MOST:
        raise InvalidConfig(f"--processes must be between 1 and {MOST}, not {count}")
    left_out = [number for number in _formatted(Path(config.log_dirs[0])) if number > count]
    if left_out:
        last, node_id = left_out[-1], config.node_id + left_out[-1] - 1
        raise InvalidConfig(
            f"{config.log_dirs[0]} is that of {last} processes: start it with --processes {last}; to have fewer, have "
            f"the others take what node {node_id} holds (barnabas cluster decommission {node_id}), stop all, and "
            f"delete {config.log_dirs[0]}/{DIRECTORY}/{last}"
        )
    if count > 1 and not config.quorum.is_broker:
        raise InvalidConfig("--processes is for brokers, and process.roles is controller: leave it out")


def _formatted(directory: Path) -> list[int]:
    """The processes after the first that have a data directory, by number.

    Partitions without records have no files: that a directory has none does not tell that its node leads nothing.
    """
    try:
        found = [int(name) for name in os.listdir(directory / DIRECTORY) if _NUMBER.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}") from None
    return sorted(found)


def plan(config: BrokerConfig, count: int) -> list[BrokerConfig]:
    """The settings of each process, the first first."""
    first = _first(config)
    bootstrap = _controllers_for_others(first)
    nodes = [first, *(_other(first, number, bootstrap) for number in range(2, count + 1))]
    nodes = [_with_http(node, config.http, number) for number, node in enumerate(nodes, start=1)]
    if config.http.is_given_by_default and _http_is_in_the_way(nodes):
        nodes = [msgspec.structs.replace(node, http=first.http) for node in nodes]
    _check_ports(nodes)
    return nodes


def with_cluster_id(config: BrokerConfig, found: MetaProperties | None) -> BrokerConfig:
    """The settings of a process that knows its cluster: its data directory is formatted for that at its first start."""
    return config if found is None else msgspec.structs.replace(config, cluster_id=found.cluster_id)


def _first(config: BrokerConfig) -> BrokerConfig:
    """The settings as they are given, with a rack and a listener for the other processes."""
    changes = {} if config.broker_rack else {"broker.rack": socket.gethostname()}
    if config.quorum.is_controller and not config.controller_listeners:
        if config.quorum.controller_listener_names:
            raise InvalidConfig("controller.listener.names must name one of the listeners, or be left out")
        changes["listeners"] = _text([*config.listeners, Listener(CONTROLLER, LOCAL, controller_port(config))])
        changes["controller.listener.names"] = CONTROLLER
    return _changed(config, changes)


def _controllers_for_others(first: BrokerConfig) -> Mapping[str, str]:
    """Where the other processes find the quorum: as the settings say, or at process 1."""
    quorum = first.quorum
    if quorum.controller_quorum_bootstrap_servers or quorum.controller_quorum_voters:
        return {}
    if not quorum.is_controller:
        raise InvalidConfig(
            "process.roles is broker, but no controller is named: set controller.quorum.bootstrap.servers"
        )
    listener = first.controller_listeners[0]
    if not listener.port:
        raise InvalidConfig(f"the listener {listener} needs a port that the other processes can know")
    host = LOCAL if listener.host in _ANY_HOST else listener.host
    return {
        "controller.quorum.bootstrap.servers": f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
    }


def _other(first: BrokerConfig, number: int, bootstrap: Mapping[str, str]) -> BrokerConfig:
    """The settings of a process after the first: a broker, one further in everything that is counted."""
    names = [listener.name for listener in first.client_listeners]
    advertised = [listener for listener in first.advertised_listeners if listener.name in names]
    changes = {
        "process.roles": "broker",
        "node.id": str(first.node_id + number - 1),
        "listeners": _text(_further(first.client_listeners, number)),
        "log.dirs": str(Path(first.log_dirs[0]) / DIRECTORY / str(number)),
        **bootstrap,
    }
    if advertised:
        changes["advertised.listeners"] = _text(_further(advertised, number))
    if first.grpc.address is not None:
        (grpc,) = _further([Listener("GRPC", *first.grpc.address)], number)
        changes["grpc.listener"] = str(grpc).partition("://")[2]
    return _changed(first, changes)


def _with_http(node: BrokerConfig, http: HttpSettings, number: int) -> BrokerConfig:
    """The settings of a process with HTTP at a port of its own, if it is served at all."""
    address = parse_http_listener(http.http_listener)
    if address is None:
        return node
    (listener,) = _further([Listener(HTTP, *address)], number)
    text = str(listener).partition("://")[2]
    return msgspec.structs.replace(node, http=msgspec.structs.replace(http, http_listener=text))


def _http_is_in_the_way(nodes: Sequence[BrokerConfig]) -> bool:
    taken = {listener.port for node in nodes for listener in node.listeners}
    served = (parse_http_listener(node.http.http_listener) for node in nodes)
    return any(address is not None and address[1] in taken for address in served)


def _asked_for_http(config: BrokerConfig) -> list[Listener]:
    """Where HTTP must be served: at an address that nobody named it need not be."""
    address = parse_http_listener(config.http.http_listener)
    return [] if address is None or config.http.is_given_by_default else [Listener(HTTP, *address)]


def _further(listeners: Sequence[Listener], number: int) -> list[Listener]:
    found = [
        msgspec.structs.replace(listener, port=listener.port + number - 1 if listener.port else 0)
        for listener in listeners
    ]
    for listener in found:
        if listener.port > _MAX_PORT:
            raise InvalidConfig(
                f"process {number} would have port {listener.port}, and there is none: take lower ports"
            )
    return found


def _text(listeners: Sequence[Listener]) -> str:
    return ",".join(map(str, listeners))


def _changed(config: BrokerConfig, changes: Mapping[str, str]) -> BrokerConfig:
    kept = dict(config.given)
    for name in changes:
        for rival in rivals(name):
            kept.pop(rival, None)
    dirs = (changes["log.dirs"],) if "log.dirs" in changes else config.log_dirs
    return msgspec.structs.replace(BrokerConfig.from_properties({**kept, **changes}), log_dirs=dirs)


# Ports


def _check_ports(nodes: Sequence[BrokerConfig]) -> None:
    """Refuse two processes, or two listeners of one, on the same port."""
    owners: dict[int, str] = {}
    for number, config in enumerate(nodes, start=1):
        for listener in (*config.listeners, *_asked_for_http(config)):
            who = f"{listener.name} of process {number}"
            if listener.port and listener.port in owners:
                raise InvalidConfig(
                    f"port {listener.port} would be that of both {owners[listener.port]} and {who}: leave room for "
                    f"{len(nodes)} ports in a row at each listener for clients"
                )
            owners[listener.port] = who


def check_free(nodes: Sequence[BrokerConfig]) -> None:
    """Refuse addresses that something else listens on, before any process is started."""
    for number, config in enumerate(nodes, start=1):
        for listener in (*config.listeners, *_asked_for_http(config)):
            if listener.port and not is_free(listener.host, listener.port):
                why = os.strerror(errno.EADDRINUSE)
                if listener.name == HTTP:
                    what = f"--processes {len(nodes)} serves HTTP at so many ports in a row; name others: http.listener"
                elif config.is_for_controllers(listener.name) and listener.host == LOCAL:
                    what = f"the port of {nodes[0].log_dirs[0]}/{DIRECTORY}/{PORT_FILE}, unless the settings name it"
                else:
                    what = f"--processes {len(nodes)} takes so many ports in a row; name others with --listen"
                raise AddressNotAvailable(
                    f"process {number} cannot listen on {listener.host}:{listener.port} ({why}): {what}"
                )


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens on a port. An address that this machine does not have is not decided here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def controller_port(config: BrokerConfig) -> int:
    """The port at which process 1 listens for the others: the one that an earlier start chose, or a free one."""
    from barnabas.testing.cluster.ports import find_free  # one process needs none, and starts without

    path = Path(config.log_dirs[0]) / DIRECTORY / PORT_FILE
    try:
        text = path.read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        (drawn,) = find_free(1, [port for each in config.listeners for port in range(each.port, each.port + MOST)])
        return _write_port(path, drawn)
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from None
    if not text.isdecimal() or not 0 < int(text) <= _MAX_PORT:
        raise InvalidConfig(f"{path} should hold a port, not {text[:20]!r}: delete it to have another one chosen")
    return int(text)


def _write_port(path: Path, port: int) -> int:
    new = path.with_suffix(".tmp")
    try:
        for directory in (path.parent.parent, path.parent):  # `mode` is not that of the parents it makes
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.touch(mode=0o600)
        new.write_text(f"{port}\n")
        new.replace(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from None
    return port
