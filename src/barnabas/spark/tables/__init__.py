"""Delta and Iceberg tables without a JAR: a Python data source named `barnabas-table`.

Writing is in two phases. Tasks write Parquet files and say which; the driver's commit makes one transaction of the
table that adds them, and that carries the id of the query and the number of the batch. A batch that is run again
after a crash finds its own number there and adds nothing. What a crashed batch wrote and never committed is no part
of the table; the table's own vacuum removes it.

See `source.TableDataSource`.
"""
