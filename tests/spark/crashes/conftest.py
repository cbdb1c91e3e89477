"""These tests need all that pipelines can write; where something of it is not installed, they are left out."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.conformance.broker.served import ServedBroker

NEEDED = ("pyspark", "deltalake", "pyiceberg")

if not all(find_spec(name) for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker
    assert "Traceback" not in broker.log, broker.log
