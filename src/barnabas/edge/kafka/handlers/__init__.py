"""The handlers of all APIs, one module for each, named as the API, which registers itself (`registry`). It is loaded
when a client first asks for its API; `make messages` finds a new one.

Beside them: `outcome` (refusals and deadlines), `operations` (what clients may do), `alive` (the nodes that they are
told of), `altering` and `committing` (shared by the APIs that alter settings and commit offsets), `fencing` (the error
code for a fenced producer), and `walking` (over the partitions of a request).
"""

from importlib import import_module
from pkgutil import iter_modules


def load_all() -> None:
    """Load every handler, to see what it registers: a node loads those that it is asked for."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
