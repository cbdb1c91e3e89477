"""Modules that are loaded when something of them is first used: so that a node is ready sooner.

For those that many functions of a module use; a single one imports what it needs itself.
"""

from importlib import import_module
from typing import Any


class Later:
    """A module that is not loaded yet; what is used of it is kept."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found
