"""Pipelines: one YAML file, or one call, that becomes plain Structured Streaming.

    from barnabas.spark import Pipeline

    pipeline = Pipeline.load("orders.yaml")          # or Pipeline.from_dict({...}); PipelineError names line and column
    pipeline.explain()                               # the plans, nothing is run
    done = pipeline.run(once=True)                   # up to what is there now; or seconds=30; or until stopped
    done.queries["archive"].rows_written

A pipeline that runs beside other work (`start` does not block):

    running = pipeline.start()                       # one streaming query for each sink, one for the dead letters
    running.progress()                               # {"archive": QueryProgress(batch_id, rows, rows_per_second, ...)}
    running.stop()                                   # clean; also on leaving `with pipeline.start() as running:`

Ready-made ones are functions of `barnabas.spark.pipelines.jobs` that give a `Pipeline`:

    from barnabas.spark.pipelines import jobs

    jobs.archive("orders", "/data/orders", schema="id long, country string, amount double, at timestamp",
                 dead_letters="orders.dead", checks=["amount >= 0"], bootstrap="127.0.0.1:9092",
                 checkpoint="/data/.archive", group="archive")
    jobs.aggregate("orders", to_topic="revenue", to_table="/data/revenue", schema="...", time="at",
                   window="10 seconds", delay="5 seconds", by=["country"],
                   aggregates={"revenue": "sum(amount)", "orders": "count(*)"}, mode="update", ...)

Dead letters keep key, value and headers of the record; the headers barnabas.error, barnabas.topic,
barnabas.partition, barnabas.offset and barnabas.pipeline say what was wrong and where it was.

Each sink is a query of its own, with a checkpoint of its own below the pipeline's `checkpoint`; each is exactly once.
"""

from barnabas.spark.pipelines.pipeline import Pipeline
from barnabas.spark.pipelines.problems import PipelineError, PipelineFailed, PipelineRunning, Problem

__all__ = ["Pipeline", "PipelineError", "PipelineFailed", "PipelineRunning", "Problem"]
