"""The points between which a crash must do no harm. A test puts a function of its own in the place of `reached`."""

from enum import Enum


class TableStep(Enum):
    """How far the batch of a table has come. In tasks the first, in the driver all others."""

    WRITTEN = "written"  # the files of a task are on disk, to be added or merged; the driver has not heard
    CREATED = "created"  # there was no table; there is one now, without rows
    EVOLVED = "evolved"  # the table has the columns of the batch, which it lacked, and none of its rows
    READY = "ready"  # every task has told the driver, and the table is known not to have the batch
    COMMITTED = "committed"  # the table has the batch; Spark's commit log has not. What was staged is there
    CLEARED = "cleared"  # of a merge: what was staged is gone; Spark's commit log still does not have the batch


def reached(step: TableStep, table: str) -> None:
    """Nothing, unless a test wants to know. `table` is where it is."""
