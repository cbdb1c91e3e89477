"""Pipelines on PySpark. They reach the bus through the Kafka protocol alone, as any client does."""

from typing import TYPE_CHECKING, Any

from barnabas.spark.java import JavaNotFound, find_java
from barnabas.spark.local_session import session

if TYPE_CHECKING:
    from barnabas.spark.pipelines import Pipeline as Pipeline
    from barnabas.spark.reporting import SourceProgress as SourceProgress
    from barnabas.spark.reporting import source_progress as source_progress

__all__ = ["JavaNotFound", "Pipeline", "SourceProgress", "find_java", "session", "source_progress"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: every Python worker of Spark imports this package.
    if name == "Pipeline":
        from barnabas.spark.pipelines import Pipeline

        return Pipeline
    if name in ("SourceProgress", "source_progress"):
        from barnabas.spark import reporting

        return getattr(reporting, name)
    raise AttributeError(f"module 'barnabas.spark' has no attribute {name!r}")
