"""Barnabas: a distributed commit log and message bus that speaks the Kafka protocol."""
