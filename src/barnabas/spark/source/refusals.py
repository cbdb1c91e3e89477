"""Errors of the user or refusals of the cluster, reported in one line instead of a stack.

Spark runs a data source in a Python worker and sends back the traceback of whatever it raises. A refusal's traceback
tells a user nothing: where a refusal leaves our code, this asks Spark's worker, which ends with it, to leave it out.
Anything else is a bug and keeps its traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from barnabas.core.errors import BarnabasError, InvalidConfig

# Spark's own switch, read by a worker when it reports what ended it.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
# Only a worker has one of these; the variable of anybody else's process is not ours to set.
_WORKER_MARKS: Final = (
    "PYTHON_WORKER_FACTORY_PORT",
    "PYTHON_WORKER_FACTORY_SECRET",
    "PYTHON_WORKER_FACTORY_SOCK_PATH",
    "PYTHON_UNIX_DOMAIN_ENABLED",
)


class InvalidOption(InvalidConfig):
    """An option of the data source that does not exist, is invalid, or contradicts another."""


class DataLoss(BarnabasError):
    """Records that were to be read are gone."""

    kafka_code = 1


class NotCommittedYet(BarnabasError):
    """Records that were to be read are behind the start of a transaction that is open."""

    kafka_code = 78  # OFFSET_NOT_AVAILABLE


@contextmanager
def plain_refusals() -> Iterator[None]:
    """Let a refusal out of a Spark worker without its traceback."""
    try:
        yield
    except BarnabasError:
        if any(mark in os.environ for mark in _WORKER_MARKS):
            os.environ[_HIDE] = "1"
        raise
