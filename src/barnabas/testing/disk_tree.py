"""Paths of a simulated disk: from a string to the directory or file, or the error of the operating system.

Owns the root, and the errors of the operating system for paths that lead nowhere or to the wrong thing.
A leading ``/`` means nothing, ``.`` and ``..`` are names like any other.

Must not know: durability, handles, injected faults.
"""

import errno
import os
from collections.abc import Iterator
from typing import Final

from barnabas.testing.disk_names import Directory, Node
from barnabas.testing.disk_pages import CachedFile

_LONGEST_NAME: Final = 255


class Tree:
    """The directories and files below one root."""

    __slots__ = ("root",)

    def __init__(self) -> None:
        self.root = Directory()

    def find(self, path: str) -> Node | None:
        """What the path leads to, if anything."""
        node: Node | None = self.root
        for name in _names(path):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def find_durable(self, path: str) -> Node | None:
        """What the path would lead to if everything unsynced were lost."""
        node: Node | None = self.root
        for name in _names(path):
            node = node.durable_node(name) if isinstance(node, Directory) else None
        return node

    def walk(self, path: str = "", node: Node | None = None) -> Iterator[tuple[str, Node]]:
        """Everything there is with its path, what a directory holds before the directory itself."""
        node = self.root if node is None else node
        if isinstance(node, Directory):
            for name, entry in sorted(node.entries.items()):
                yield from self.walk(f"{path}/{name}", entry)
        yield path, node

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that holds the last name of the path, and that name. The root is refused."""
        head, _, name = path.rstrip("/").rpartition("/")
        if not name:
            raise os_error(errno.EBUSY, path)
        if len(os.fsencode(name)) > _LONGEST_NAME:
            raise os_error(errno.ENAMETOOLONG, path)
        return self.directory(head), name

    def directory(self, path: str) -> Directory:
        """The directory the path leads to."""
        node = self.root
        for name in _names(path):
            entry = node.entries.get(name)
            if entry is None:
                raise os_error(errno.ENOENT, path)
            if not isinstance(entry, Directory):
                raise os_error(errno.ENOTDIR, path)
            node = entry
        return node

    def file(self, path: str) -> CachedFile:
        """The file the path leads to."""
        directory, name = self.parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node


def check_replaceable(node: Node, replaced: Node | None, path: str) -> None:
    """Raise unless a rename may put `node` where `replaced` was."""
    if isinstance(replaced, Directory):
        if not isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        if replaced.entries:
            raise os_error(errno.ENOTEMPTY, path)
    elif replaced is not None and isinstance(node, Directory):
        raise os_error(errno.ENOTDIR, path)


def os_error(code: int, path: str) -> OSError:
    """The error the operating system would raise, of the same class."""
    return OSError(code, os.strerror(code), path)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
