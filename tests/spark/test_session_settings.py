"""What a session is tuned to, and that a caller has the last word."""

import os
from typing import Any

import pytest

from barnabas.spark import local_session


def test_a_session_is_tuned_for_streams_on_one_machine(spark: Any) -> None:
    expected = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "barnabas.spark.worker_daemon",
    }

    assert {name: spark.conf.get(name) for name in expected} == expected
    # As the fixture says, not as the default would. A command that finds this session running cannot change it.
    assert spark.sparkContext.getConf().get("spark.driver.memory") == "2g"


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4, 2]", 4)])
def test_shuffles_have_as_many_tasks_as_there_are_cores(master: str, cores: int) -> None:
    assert local_session._defaults(master)["spark.sql.shuffle.partitions"] == str(cores)


def test_a_cluster_keeps_its_own_memory_and_shuffles() -> None:
    settings = local_session._defaults("spark://somewhere:7077")

    assert "spark.driver.memory" not in settings
    assert "spark.sql.shuffle.partitions" not in settings


def test_java_does_not_hear_signals_to_our_process_group(spark: Any) -> None:
    java = spark.sparkContext._gateway.proc.pid

    assert os.getpgid(java) != os.getpgid(0)
