"""`format("barnabas")`: topics as Spark tables and streams, with the options and columns of Spark's Kafka source."""
