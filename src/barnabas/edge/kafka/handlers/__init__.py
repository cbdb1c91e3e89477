"""The handlers of all APIs, one module for each, which registers itself (`registry`): a new one is found here.

Beside them: `outcome` (refusals and deadlines), `operations` (what clients may do), `alive` (the nodes that they are
told of), `altering` and `committing` (shared by the APIs that alter settings and commit offsets), `fencing` (the error
code for a fenced producer), and `walking` (over the partitions of a request).
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
