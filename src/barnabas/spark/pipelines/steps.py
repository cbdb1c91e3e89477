"""Steps that SQL has no words for."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_duplicates(frame: "DataFrame", columns: str) -> "DataFrame":
    """The first row of those with equal columns, within the watermark's delay."""
    return frame.dropDuplicatesWithinWatermark([name.strip() for name in columns.split(",")])
