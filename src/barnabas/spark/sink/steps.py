"""The points between which a crash must do no harm. A test puts a function of its own in the place of `reached`."""

from enum import Enum


class Step(Enum):
    """How far a write has come. In tasks, except for the last, which is in the driver."""

    STARTED = "started"  # there are rows; nothing was asked of the cluster yet
    READY = "ready"  # what an earlier attempt left is settled, and the share is known not to be published
    SENT = "sent"  # all rows are on their way, in an open transaction
    MARKED = "marked"  # the transaction has the progress as well
    PUBLISHED = "published"  # the transaction is committed; Spark has not heard
    BATCH_PUBLISHED = "batch-published"  # every task has told the driver; Spark's commit log does not have the batch


def reached(step: Step) -> None:
    """Nothing, unless a test wants to know."""
