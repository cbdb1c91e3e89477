"""The Python of a pipeline: modules beside its file, found here and sent along to where Spark runs them.

A step's function runs here, but its UDFs run in Spark's workers, which know nothing of this directory. So what was
imported from it is pickled by value, code and all. Sending files instead (`addPyFile`, `addArtifacts`) would not do:
over Connect, Spark 4.3 gives the tasks of a stream no file of their session.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from barnabas.core.errors import BarnabasError


def find_function(target: str, base: Path) -> Callable[..., Any]:
    """The function that `package.module:function` names, installed or beside the pipeline."""
    from pyspark.cloudpickle import register_pickle_by_value

    module_name, _, function_name = target.partition(":")
    if str(base) not in sys.path:
        sys.path.append(str(base))  # a module beside the pipeline, as beside a script
    try:
        function: Callable[..., Any] = getattr(import_module(module_name), function_name)
    except ImportError as error:
        raise BarnabasError(f"cannot import {module_name!r}: {error}") from None
    except AttributeError:
        raise BarnabasError(f"{module_name!r} has no function {function_name!r}") from None
    for module in imported_from(base):
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return function


def imported_from(base: Path) -> list[ModuleType]:
    """The modules and packages that stand in a directory and have been imported from there."""
    found = []
    for path in sorted(base.iterdir()):
        module = sys.modules.get(path.stem if path.suffix == ".py" else path.name)
        places = [] if module is None else [*getattr(module, "__path__", []), getattr(module, "__file__", None)]
        if module is not None and path.resolve() in [Path(place).resolve() for place in places if place]:
            found.append(module)
    return found
