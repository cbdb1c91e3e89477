"""What a field of a kio class says of its bytes."""

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


def take_apart(annotation: Any) -> tuple[Any, bool, bool]:
    """The type inside an annotation, whether None may stand for it, and whether it is an array."""
    is_nullable = is_array = False
    while True:
        origin = get_origin(annotation)
        if origin in (UnionType, Union):
            is_nullable = True
            (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
        elif origin is tuple:
            is_array = True
            annotation = get_args(annotation)[0]
        else:
            return annotation, is_nullable, is_array
