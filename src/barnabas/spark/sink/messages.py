"""What a task tells the driver about its share."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from barnabas.spark.sink.shares import Prepared

NOTHING_SEEN: Final = ""


@dataclass
class ShareWritten(WriterCommitMessage):
    """The result of writing a share."""

    owner: str
    task: int
    row_count: int
    was_published_before: bool = False
    seen: str | None = None  # the entry of the ledger that the task has gone by; None if it did not look
    prepared: Prepared | None = None  # what the driver has to end
    began_at_s: float = 0.0  # when its transaction began, by the clock of the task's machine
