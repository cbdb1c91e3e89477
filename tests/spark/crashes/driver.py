"""A Spark driver in a process of its own: it runs a pipeline, again if a query fails, until it is killed.

Arguments: the file of the pipeline, and a file that gets a line for each failure.
"""

import sys
from pathlib import Path

from barnabas.spark import Pipeline, session
from barnabas.spark.pipelines.problems import PipelineFailed
from tests.spark.conftest import QUICK


def main() -> None:
    pipeline = Pipeline.load(sys.argv[1])
    spark = session(
        "crashes",
        master="local[5,4]",  # a task that waits at a step keeps a core; one may fail three times
        settings={**QUICK, "spark.driver.memory": "1g"},
    )
    while True:
        try:
            pipeline.run(spark)
        except PipelineFailed as failure:
            with Path(sys.argv[2]).open("a") as failures:
                failures.write(str(failure).replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
