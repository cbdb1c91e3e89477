"""Each node in a network namespace of its own, so that links between nodes can be cut.

`enter` runs the command anew in fresh namespaces for network and mounts: a bridge lives there, and one named namespace
for each node, with one end of a pair of virtual Ethernet devices. All of it ends with the last process inside, however
that process ends, so nothing is left behind on the machine, and no packet leaves it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_INSIDE: Final = "CHAOS_IN_NAMESPACES"
_SUBNET: Final = "10.213.0"
_CLIENTS: Final = f"{_SUBNET}.254"
_NOBODY: Final = "02:00:00:00:00:99"
"""A hardware address that nobody has: what is sent there is lost in silence, as on a broken line."""
_TOOLS: Final = ("unshare", "nsenter", "ip", "mount")


def why_not() -> str | None:
    """Why this machine cannot have namespaces; None if it can."""
    missing = [each for each in _TOOLS if shutil.which(each) is None]
    if sys.platform != "linux" or missing:
        return f"there is no {' and no '.join(missing or ['Linux'])}"
    script = "mount -t tmpfs none /run && ip link add hub type bridge && ip link add port0 type veth peer name eth0"
    tried = subprocess.run([*_unshare(), "sh", "-c", script], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else (tried.stderr.strip() or f"unshare ended with {tried.returncode}")


def is_inside() -> bool:
    return _INSIDE in os.environ


def enter(arguments: Sequence[str]) -> None:
    """Run this command again, in namespaces of its own; does not return."""
    script = 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"'
    command = [*_unshare(), "sh", "-c", script, "sh", sys.executable, *arguments]
    os.execvpe(command[0], command, {**os.environ, _INSIDE: "1"})


def _unshare() -> list[str]:
    own_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *own_user, "--net", "--mount", "--propagation", "private"]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """The bridge, with clients at its own address, and the link of each node."""

    def __init__(self, node_ids: Sequence[int]) -> None:
        assert is_inside(), "only in namespaces of its own: this machine keeps its links"
        self._node_ids = list(node_ids)
        self._lost: set[tuple[int | None, int]] = set()
        self._down: set[int] = set()
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "hub", "type", "bridge")
        _ip("address", "add", f"{_CLIENTS}/24", "dev", "hub")
        _ip("link", "set", "hub", "up")
        for each in node_ids:
            name = f"node{each}"
            _ip("netns", "add", name)
            _ip("link", "add", f"port{each}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"port{each}", "master", "hub", "up")
            _ip("-n", name, "address", "add", f"{self.host(each)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def host(self, node_id: int) -> str:
        return f"{_SUBNET}.{node_id}"

    def command(self, node_id: int, command: Sequence[str]) -> list[str]:
        """A command as it is run in the namespace of a node."""
        return ["nsenter", f"--net={Path('/run/netns') / f'node{node_id}'}", *command]

    def unplug(self, node_id: int) -> None:
        """Cut a node off from everybody, clients too."""
        _ip("link", "set", f"port{node_id}", "down")
        self._down.add(node_id)

    def lose(self, sender: int | None, receiver: int) -> None:
        """Lose what one node sends to another, one way only. None stands for the clients."""
        where = ("dev", "hub") if sender is None else ("dev", "eth0")
        namespace = () if sender is None else ("-n", f"node{sender}")
        _ip(*namespace, "neigh", "replace", self.host(receiver), "lladdr", _NOBODY, *where, "nud", "permanent")
        self._lost.add((sender, receiver))

    def heal(self) -> None:
        """Mend everything that was cut."""
        for node_id in sorted(self._down):
            _ip("link", "set", f"port{node_id}", "up")
        for sender, receiver in self._lost:
            where = ("dev", "hub") if sender is None else ("dev", "eth0")
            namespace = () if sender is None else ("-n", f"node{sender}")
            _ip(*namespace, "neigh", "del", self.host(receiver), *where)
        self._down.clear()
        self._lost.clear()
