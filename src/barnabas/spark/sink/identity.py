"""A digest of the rows of a batch write that has a name: whether one that is made again has the rows that it had.

The order of rows does not count: what comes out of a shuffle is in another order every time.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from barnabas.spark.sink.columns import Layout


class RowDigest:
    """The sum of the hashes of rows, by what is sent of them."""

    def __init__(self, layout: Layout) -> None:
        self._positions = layout.positions
        self._sum = np.uint64(0)

    def add(self, batch: pa.RecordBatch) -> None:
        rows = np.zeros(batch.num_rows, np.uint64)
        for name in sorted(self._positions):
            rows = rows * _MULTIPLIER + _hashes(batch.column(self._positions[name]))
        self._sum += rows.sum(dtype=np.uint64)

    def hexdigest(self) -> str:
        return f"{int(self._sum):016x}"


_MULTIPLIER = np.uint64(1_000_003)


def _hashes(column: Any) -> Any:
    if pa.types.is_nested(column.type):
        values = np.array([repr(each) for each in column.to_pylist()], object)
    else:
        values = column.to_numpy(zero_copy_only=False)
    return pd.util.hash_array(values, categorize=False)
