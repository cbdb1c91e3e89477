"""Which names a request may come for, and from which pages: the defence against pages that call this node.

A page on some site can have a browser send requests to 127.0.0.1. A browser says which page it is (`Origin`), and the
name it used (`Host`): a name that is not ours is one that was pointed at our address (DNS rebinding). Addresses are
always good names; others are `http.allowed.hosts`.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

LOCAL = frozenset({"localhost"})


class HostCheck:
    """The names and pages that are allowed."""

    def __init__(self, hosts: Iterable[str], origins: Iterable[str] = ()) -> None:
        self._hosts = LOCAL | {host.lower() for host in hosts if host}
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def refuse(self, host: str | None, origin: str | None) -> str | None:
        """Why a request is refused; None if it is not."""
        name = _name_of(host or "")
        if name is None or not self._is_ours(name):
            return "the Host of this request is none of this node's names; see http.allowed.hosts"
        if origin is not None and not self._may_call(origin, host or ""):
            return "a page of another origin may not call this node; see http.allowed.origins"
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    def _may_call(self, origin: str, host: str) -> bool:
        if origin.rstrip("/").lower() in self._origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower() and origin != "null"
        except ValueError:
            return False


def _name_of(host: str) -> str | None:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
