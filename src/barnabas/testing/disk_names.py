"""The names of one simulated directory: what is visible, what is durable, what a power cut makes of the rest.

Owns the rules of name durability:
- a name is durable only by a sync of its directory; syncing the file saves its bytes, not its name;
- after a power cut each name stands at some point of its own history since the last sync, whatever became of
  the other names: a new file may be gone, a removed one back;
- a rename is one step for both names: the target leads to the old file or to the new one, and the source is
  not gone unless the target is there. The source may linger beside the target, as POSIX allows, so two names
  may lead to one file: a leftover must be removed, never written to. A directory never has two names;
- a change survives only if all earlier unsynced changes of the same names did, so a durable file that nobody
  removed cannot lose its last name;
- a sync that fails drops what was unsynced: it is still seen, and a later sync has nothing left to write and reports
  success. A directory is one block: once anything in it is changed again, a sync saves it whole, as it is seen.

Must not know: paths, bytes, handles, injected faults.
"""

from __future__ import annotations  # a directory holds nodes, and is one

from random import Random
from typing import Final, NamedTuple, TypeAlias

from barnabas.testing.disk_pages import CachedFile, Keep

_ODDS: Final = (0.1, 0.5, 0.9)
_SOURCE_LINGERS: Final = 0.25


class _Change(NamedTuple):
    """One step: a name is gained, or lost, or, in a rename, both."""

    gained: str | None
    lost: str | None
    node: Node

    def names(self) -> set[str]:
        return {name for name in (self.gained, self.lost) if name is not None}

    def apply(self, entries: dict[str, Node], *, source_lingers: bool = False) -> None:
        if self.gained is not None:
            entries[self.gained] = self.node
        if self.lost is not None and not source_lingers:
            entries.pop(self.lost, None)

    def may_linger(self) -> bool:
        return self.gained is not None and self.lost is not None and isinstance(self.node, CachedFile)


class Directory:
    """A directory's names, in the cache and on the platter."""

    __slots__ = ("_durable", "_has_dropped", "_pending", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._pending: list[_Change] = []
        self._has_dropped = False  # whether some of what is seen is of changes that a failed sync dropped

    def add(self, name: str, node: Node) -> None:
        self._change(_Change(name, None, node))

    def remove(self, name: str) -> None:
        self._change(_Change(None, name, self.entries[name]))

    def rename(self, source: str, target: str) -> None:
        self._change(_Change(target, source, self.entries[source]))

    def durable_node(self, name: str) -> Node | None:
        """Where the name would lead if everything unsynced were lost."""
        return self._durable.get(name)

    def sync(self) -> None:
        """Make durable what is pending, and with it all that is seen: what a failed sync dropped is not pending."""
        if self._pending and self._has_dropped:
            self._durable = dict(self.entries)
            self._has_dropped = False
        for change in self._pending:
            change.apply(self._durable)
        self._pending.clear()

    def fail_sync(self, keep: Keep, random: Random) -> None:
        """Drop what is pending: the names are still seen, and a later sync alone does not save them."""
        self._settle(keep, random)
        self._has_dropped = True

    def lose_power(self, keep: Keep, random: Random) -> None:
        """Go on with the names that are durable and those that chance kept."""
        self._settle(keep, random)
        self.entries = dict(self._durable)
        self._has_dropped = False

    def _change(self, change: _Change) -> None:
        change.apply(self.entries)
        self._pending.append(change)

    def _settle(self, keep: Keep, random: Random) -> None:
        if keep is Keep.EVERYTHING:
            self.sync()
        elif keep is Keep.RANDOM and self._pending:
            self._keep_some(random)
        self._pending.clear()

    def _keep_some(self, random: Random) -> None:
        odds = random.choice(_ODDS)
        stuck: set[str] = set()
        for change in self._pending:
            names = change.names()
            if stuck.isdisjoint(names) and random.random() < odds:
                lingers = change.may_linger() and random.random() < _SOURCE_LINGERS
                change.apply(self._durable, source_lingers=lingers)
            else:
                stuck |= names


Node: TypeAlias = CachedFile | Directory
