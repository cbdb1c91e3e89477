"""The byte layout that a field of a kio class describes."""

from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "bool": "?",
}
"""The kinds of fixed size, as `struct` names them."""


_IMPLICIT: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "uuid": None,
    "bool": False,
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
}


def take_apart(annotation: Any) -> tuple[Any, bool, bool]:
    """The type inside an annotation, whether None may stand for all of it, and whether it is an array."""
    is_nullable = is_array = False
    while True:
        origin = get_origin(annotation)
        if origin in (UnionType, Union):
            is_nullable |= not is_array  # within an array only ids are: None is the id that is all zeros
            (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
        elif origin is tuple:
            is_array = True
            annotation = get_args(annotation)[0]
        else:
            return annotation, is_nullable, is_array


def is_struct(kind: Any) -> bool:
    """Whether a type inside an annotation is a struct, which is a kio class."""
    return is_dataclass(kind)


def implicit_default(field: "Field[Any]") -> Any:
    """The value of an absent field: the schema's default, else the protocol's zero."""
    if field.default is not MISSING:
        return field.default
    inner, is_nullable, is_array = take_apart(field.type)
    if is_array:
        return ()
    if is_struct(inner):
        return None if is_nullable else inner(**{each.name: implicit_default(each) for each in fields(inner)})
    return None if is_nullable else _IMPLICIT.get(field.metadata["kafka_type"], 0)
