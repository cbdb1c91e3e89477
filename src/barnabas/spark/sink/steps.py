"""The points between which a crash must do no harm. A test puts a function of its own in the place of `reached`."""

from enum import Enum


class TopicStep(Enum):
    """How far a write has come: in a task up to `PREPARED`, then in the driver."""

    STARTED = "started"  # there are rows; nothing was asked of the cluster yet
    READY = "ready"  # the share is known not to be published, and what an attempt before had left open is aborted
    PART_SENT = "part-sent"  # some rows are on their way, in an open transaction; more are to come
    SENT = "sent"  # all rows are on their way, in an open transaction
    MARKED = "marked"  # the transaction has the progress as well
    PREPARED = "prepared"  # all of it is acknowledged; the task has not told the driver
    ALL_PREPARED = "all-prepared"  # every task has told the driver
    INTENDED = "intended"  # that the batch is to be published is written down; nothing of it is committed
    PART_PUBLISHED = "part-published"  # one transaction is committed, others are not
    BATCH_PUBLISHED = "batch-published"  # all are; Spark's commit log does not have the batch


def reached(step: TopicStep) -> None:
    """Nothing, unless a test wants to know."""
