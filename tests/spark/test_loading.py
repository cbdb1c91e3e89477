"""What Spark starts a Python for on the driver, for every query, loads nothing that encodes or reads rows."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("barnabas.spark.source.stream_planner", ("numba", "pandas", "pyarrow.compute")),
        ("barnabas.spark.source.stream_reader", ("numba", "pandas", "pyarrow.compute")),
        ("barnabas.spark.sink.writers", ("numba", "pandas", "pyarrow.compute")),
        ("barnabas.spark.sink.committing", ("numba", "pandas", "pyarrow.compute")),
    ],
)
def test_a_planner_or_a_commit_loads_only_what_it_needs(module: str, needless: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*sorted(set({needless}) & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
