"""Pipelines on PySpark. They reach the bus through the Kafka protocol alone, as any client does."""

from typing import TYPE_CHECKING, Any

from barnabas.spark.java import JavaNotFound, find_java
from barnabas.spark.local_session import session

if TYPE_CHECKING:
    from barnabas.spark.pipelines import Pipeline as Pipeline

__all__ = ["JavaNotFound", "Pipeline", "find_java", "session"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: every Python worker of Spark imports this package.
    if name != "Pipeline":
        raise AttributeError(f"module 'barnabas.spark' has no attribute {name!r}")
    from barnabas.spark.pipelines import Pipeline

    return Pipeline
