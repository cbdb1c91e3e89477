"""What is said when there is no Connect server to run in."""

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.spark import connecting
from barnabas.spark.pipelines.pipeline import open_session
from tests.spark.cluster.processes import free_port

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc_status", reason="Spark Connect is not installed: pip install 'barnabas[connect]'")
    monkeypatch.setattr(connecting, "_ANSWERS_WITHIN_S", 0.3)
    address = f"sc://127.0.0.1:{free_port()}"

    with pytest.raises(BarnabasError, match=f"no Spark Connect server answers at {address}"):
        connecting.connect(f"{address}/;token=secret")


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(BarnabasError, match="as in sc://localhost:15002"):
        connecting.connect("spark://127.0.0.1:7077")


def test_a_session_is_of_a_cluster_or_of_a_server() -> None:
    with pytest.raises(BarnabasError, match="not of both"):
        open_session("orders", master="local[2]", remote="sc://127.0.0.1:15002")
