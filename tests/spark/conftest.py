"""One Spark session and one broker for all tests here that want one; topics are named apart.

A JVM takes seconds to start and a core while it does, so tests share one: under xdist (`--dist loadgroup`) two, one for
pipelines and one for all others, each in a process of its own. One after the other they would take longer than all else
that a run of all tests has, and processors would be idle at its end. Those of each server that tests share are in one
process, too. What starts Sparks of its own, or none, runs beside them.

The tests of the sessions take longest, and so come first of all, those of pipelines before the others, also with xdist
(`--no-loadscope-reorder`). Their processes prepare how Spark is started, while others have tests without Spark.
"""

import itertools
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.testing.embedded import EmbeddedBroker
from tests.spark.quick_daemon import TABLES_VARIABLE
from tests.spark.quick_java import use_archive
from tests.spark.quick_python import use_short_path

if TYPE_CHECKING:
    from barnabas.client import Bus

HERE = Path(__file__).parent
OF_PIPELINES = HERE / "pipelines"
SHARED = ("spark", "remote", "pipeline")  # fixtures that start a JVM
MakeTopic = Callable[..., str]

_numbers = itertools.count()
QUICK = {"spark.log.level": "ERROR"}


@pytest.hookimpl(tryfirst=True)  # before groups are read, also where pytest is told of this directory alone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shared = set(SHARED).intersection(getattr(item, "fixturenames", ()))
        if item.path.is_relative_to(HERE) and shared:
            group = shared.pop()
            is_of_pipelines = group == "spark" and item.path.is_relative_to(OF_PIPELINES)
            item.add_marker(pytest.mark.xdist_group("spark_of_pipelines" if is_of_pipelines else group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if not item.path.is_relative_to(HERE) or "spark" not in getattr(item, "fixturenames", ()):
        return 2
    return 0 if item.path.is_relative_to(OF_PIPELINES) else 1


@pytest.fixture(scope="session", autouse=True)
def _spark_starts_quickly(request: pytest.FixtureRequest) -> None:
    if find_spec("pyspark"):
        cache = request.config.rootpath / ".pytest_cache"
        use_short_path(cache / "spark-python")
        use_archive(cache / "spark-java")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of this process."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
    from barnabas.spark import session  # noqa: PLC0415

    settings = {
        **QUICK,
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(TABLES_VARIABLE, "1")  # for its Java, and what that starts
        running = session("tests", settings=settings)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def spark_broker() -> Iterator[EmbeddedBroker]:
    """A broker that compacts at once, and keeps what tests say is years old, in this process."""
    with EmbeddedBroker({"log.cleaner.backoff.ms": "50", "log.retention.ms": "-1"}) as broker:
        yield broker


@pytest.fixture
def bootstrap(spark_broker: EmbeddedBroker) -> str:
    return spark_broker.bootstrap


@pytest.fixture
def client(spark_broker: EmbeddedBroker) -> "Bus":
    """A client of the broker that these tests share."""
    return spark_broker.bus


@pytest.fixture
def make_topic(client: "Bus") -> MakeTopic:
    """Create a topic of its own for a test; returns its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"spark-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        client.create_topic(name, partitions=partitions, config=settings)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()
