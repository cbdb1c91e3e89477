"""`checking.check_records` at native speed: compiled by numba, holding no interpreter lock.

A module of its own, so that a broker that checks batches loads no other kernel. Importing it imports numba, and
compiles once per machine; see `kernels`.

Invariant: accepts and refuses exactly what `checking.check_records` does, for the same reason, and reads nothing
outside the bytes it is given.
"""

import numpy as np

from barnabas.core.records.batch import MIN_RECORD_SIZE, Buffer
from barnabas.core.records.checking import (
    BAD_ATTRIBUTES,
    BAD_END,
    BAD_HEADERS,
    INT64_MIN,
    MAX_ATTRIBUTES,
    OK,
    TRAILING_BYTES,
)
from barnabas.core.records.native import DATA, INT, TWO_INTS, Bytes, Int64, decode_long, decode_short, native


def check_records(section: Buffer, count: int, base_timestamp: int) -> tuple[int, int]:
    """OK, or what is wrong | number of the record << 8; and the newest timestamp."""
    status, newest = check_kernel(np.frombuffer(section, np.uint8), count, base_timestamp)
    return status, newest


# One loop with one place that reads a number, as in `kernels.index_records`: the fields of a record are numbered from
# its length (0) to the count of its headers (5), and a bad one has the status of its number plus one.
@native(TWO_INTS(DATA, INT, INT))
def check_kernel(data: Bytes, count: int, base_timestamp: int) -> tuple[int, int]:
    """Check that `data` is `count` records with the offset deltas 0, 1, 2 and so on."""
    at: Int64 = 0
    size: Int64 = len(data)
    newest: Int64 = INT64_MIN
    for record in range(count):
        end: Int64 = size
        field = 0
        field_count: Int64 = 6
        while field < field_count:
            number, length = 0, 0
            if at + 1 < size:
                number, length = decode_short(np.int64(data[np.uint64(at)]), np.int64(data[np.uint64(at + 1)]))
            if length == 0:
                number, length = decode_long(data, at, size, 63 if field == 1 else 28)
            at += length
            is_good = length > 0
            if field == 0:
                is_good &= MIN_RECORD_SIZE - 1 <= number <= size - at
                end = at + number
                if is_good and data[np.uint64(at)] > MAX_ATTRIBUTES:
                    return BAD_ATTRIBUTES | record << 8, newest
                at += 1
            elif field == 1:
                timestamp = base_timestamp + number
                # Of two numbers of one sign whose sum has the other, the sum overflowed.
                is_good &= ((base_timestamp ^ timestamp) & (number ^ timestamp)) >= 0
                newest = max(newest, timestamp)
            elif field == 2:
                is_good &= number == record
            elif field == 5:
                # The smallest header is an empty key and a null value: two bytes.
                is_good &= 0 <= number <= (end - at) // 2
                field_count += 2 * number
            else:  # key, value, then the keys and values of the headers in turns; a header's key cannot be null
                least = -1 if field < 5 else -(field & 1)
                is_good &= least <= number <= end - at
                at += max(number, 0)
            if not is_good:
                return min(field + 1, BAD_HEADERS) | record << 8, newest
            field += 1
        if at != end:
            return BAD_END | record << 8, newest
    return (OK if at == size else TRAILING_BYTES | max(count - 1, 0) << 8), newest
