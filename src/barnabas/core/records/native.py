"""What every kernel is made with: compiling once per machine, and reading the numbers of a record.

Importing this module imports numba. Must not know: what the numbers mean.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

try:
    import numba
    import numpy as np
    from numba import types
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError("native record decoding needs numba: pip install 'barnabas[arrow]'") from error

Bytes: TypeAlias = NDArray[np.uint8]
Int64: TypeAlias = Any  # a machine integer, which wraps: what numba makes of int, not Python's
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

DATA: Final = types.Array(types.uint8, 1, "C", readonly=True)
INT: Final = types.int64
TWO_INTS: Final = types.Tuple((INT, INT))  # type: ignore[no-untyped-call]
_INT64_MAX: Final = 2**63 - 1


def native(signature: Any) -> Callable[[Kernel], Kernel]:
    """Compile for this one signature, now, cached on disk where that is possible."""

    def compile_(function: Kernel) -> Kernel:
        try:
            compiled: Kernel = numba.njit(signature, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # no directory for the cache is found, or it cannot be written
            compiled = numba.njit(signature, nogil=True)(function)
        return compiled

    return compile_


@numba.njit(nogil=True)
def decode_short(low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """The number that begins with these two bytes and its size, which is 0 if it goes on after them."""
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), 1
    if high < 0x80:
        return ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), 2
    return 0, 0


@numba.njit(nogil=True)
def decode_long(data: Bytes, at: Int64, stop: Int64, max_shift: int) -> tuple[Int64, Int64]:
    """The number at `at` and its size, which is 0 if there is no such number.

    `max_shift` is the shift of the last byte that it may have: 28 in a varint, 63 in a varlong.
    """
    zigzag: Int64 = 0
    shift = 0
    size = 0
    last_byte = 0x0F if max_shift == 28 else 0x01  # the bits left for it: 4 of 32, 1 of 64
    while at + size < stop and shift <= max_shift:
        byte = np.int64(data[np.uint64(at + size)])
        size += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == max_shift and byte > last_byte:
                break
            return ((zigzag >> 1) & _INT64_MAX) ^ -(zigzag & 1), size
        shift += 7
    return 0, 0
