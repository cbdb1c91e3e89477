"""Pipelines on PySpark. They reach the bus through the Kafka protocol alone, as any client does."""
