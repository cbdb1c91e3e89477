"""Pipelines on PySpark. They reach the bus through the Kafka protocol alone, as any client does."""

from barnabas.spark.java import JavaNotFound, find_java
from barnabas.spark.local_session import session

__all__ = ["JavaNotFound", "find_java", "session"]
