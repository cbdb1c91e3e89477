"""What a session does about a cluster that is elsewhere, and under `spark-submit`."""

import pytest

from barnabas.spark import local_session
from barnabas.spark.pipelines import submit


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_only_loopback_is_listened_on_where_all_of_spark_is_here(master: str) -> None:
    settings = local_session._defaults(master)

    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"


def test_workers_of_another_machine_can_call_back() -> None:
    settings = local_session._defaults("spark://somewhere:7077")

    assert "spark.driver.bindAddress" not in settings
    assert "spark.driver.host" not in settings


def test_what_is_submitted_is_this_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main(["--path"]) == 0

    assert capsys.readouterr().out == f"{submit.__file__}\n"


def test_a_file_that_is_wrong_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main(["nowhere.yaml"]) == 1

    assert capsys.readouterr().err.startswith("barnabas: nowhere.yaml: cannot be read")
