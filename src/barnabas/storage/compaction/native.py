"""The key map at native speed: the records of a batch are walked, hashed and copied by compiled kernels.

Importing this module imports numba; see `key_map.choose_engine` for when that is worth it. The kernels release the
interpreter lock, so a broker's event loop goes on while a large log is compacted in a thread.

The table begins small, grows with the keys, and never takes more than the budget, the moment of growing included.
"""

from typing import Final

import numpy as np

from barnabas.core.records.batch import BatchHeader, Buffer
from barnabas.core.records.kernels import Index, index_batch
from barnabas.core.records.native import Bytes
from barnabas.storage.compaction.native_table import (
    COUNT,
    FACTS,
    MAX_ROWS,
    NEWEST,
    OLDEST,
    ROW_SIZE,
    TOMBSTONES,
    Numbers,
    Table,
    copy_kept,
    move_rows,
    put_keys,
    rebase_kept,
    select,
)

_MAX_LOAD: Final = 0.75  # beyond that, probing takes longer than the memory is worth
_BYTES_PER_ROW: Final = 1024  # of log: a first guess on the small side, for a table that fits into a cache is faster
_MIN_ROWS: Final = 1024
_GROWTH: Final = 4
_MAX_ADDED: Final = 16  # bytes that another timestamp may add to a record


class NativeKeyMap:
    """A table of 128-bit hashes; `hash_key` is 16 random bytes."""

    def __init__(self, max_bytes: int, *, dirty_bytes: int, hash_key: bytes) -> None:
        if len(hash_key) != 16:
            raise ValueError(f"a hash key has 16 bytes, not {len(hash_key)}")
        self._k0, self._k1 = np.frombuffer(hash_key, "<u8")
        self._max_rows = min(max_bytes // ROW_SIZE, MAX_ROWS)
        rows = max(_MIN_ROWS, dirty_bytes // _BYTES_PER_ROW)
        self._table = _new_table(max(1, min(rows, self._max_rows)))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def memory_bytes(self) -> int:
        return self._table.nbytes

    def add(self, header: BatchHeader, payload: Buffer) -> bool:
        data, index = np.frombuffer(payload, np.uint8), index_batch(payload, header)
        while True:
            max_used = int(len(self._table) * _MAX_LOAD)
            used = put_keys(data, index, self._k0, self._k1, self._table, self._used, max_used)
            if used >= 0:
                self._used = used
                return True
            # What was put before it was full is found again by the next try, but not counted by this one.
            if not self._grow():
                self._used = max_used
                return False

    def select(self, header: BatchHeader, payload: Buffer, *, keeps_tombstones: bool) -> "NativeSelection":
        data, index = np.frombuffer(payload, np.uint8), index_batch(payload, header)
        keep = np.empty(len(index), np.uint8)
        facts = np.zeros(FACTS, np.int64)
        select(data, index, self._k0, self._k1, self._table, keeps_tombstones, keep, facts)
        return NativeSelection(data, index, keep, facts)

    def _grow(self) -> bool:
        """Move to a larger table, if both together are within the budget."""
        rows, most = len(self._table) * _GROWTH, self._max_rows - len(self._table)
        if self._max_rows - rows <= rows:
            rows = most  # there would be no room to grow once more
        if rows <= len(self._table):
            return False
        larger = _new_table(rows)
        self._used = move_rows(self._table, larger)
        self._table = larger
        return True


class NativeSelection:
    """Records kept by a flag for each row of their index."""

    __slots__ = ("_data", "_facts", "_index", "_keep")

    def __init__(self, data: Bytes, index: Index, keep: Bytes, facts: Numbers) -> None:
        self._data = data
        self._index = index
        self._keep = keep
        self._facts = facts

    @property
    def count(self) -> int:
        return int(self._facts[COUNT])

    @property
    def tombstones(self) -> int:
        return int(self._facts[TOMBSTONES])

    @property
    def oldest_timestamp(self) -> int:
        return int(self._facts[OLDEST])

    @property
    def newest_timestamp(self) -> int:
        return int(self._facts[NEWEST])

    def records(self, *, base_timestamp: int | None = None) -> memoryview:
        if base_timestamp is None:
            out = np.empty(len(self._data), np.uint8)
            used = copy_kept(self._data, self._index, self._keep, out)
        else:
            out = np.empty(len(self._data) + _MAX_ADDED * self.count, np.uint8)
            used = rebase_kept(self._data, self._index, self._keep, base_timestamp, out)
        return out.data[:used]


def _new_table(rows: int) -> Table:
    return np.zeros((rows, 3), np.uint64)
