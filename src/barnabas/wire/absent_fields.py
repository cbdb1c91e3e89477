"""Fields of a request that its version does not have: they can be read like any other, and have the protocol's default.

So a handler is one function for all versions and need not know which version added a field. A default is an attribute
of the class, kio's own or a row's, and costs a request nothing. The fields that a class lacks are listed beforehand:
finding them would mean loading the schemas of all versions.
"""

from dataclasses import fields
from typing import Any

from barnabas.wire.absent_field_defaults import DEFAULTS
from barnabas.wire.own_fields import with_own_fields


def add_absent_fields(kind: Any, schema: Any) -> None:
    """Give the class of a struct the fields that only other versions of its schema, a kio class, have."""
    _, _, api, _, direction = schema.__module__.split(".")  # kio.schema.join_group.v9.request
    if direction != "request":
        return
    there = {each.name for each in fields(with_own_fields(schema))}
    for name, default in DEFAULTS.get(f"{api}.{schema.__name__}", {}).items():
        if name not in there:
            setattr(kind, name, default)
