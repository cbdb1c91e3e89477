"""A crash between any two steps of a commit: every output equals the input, each record once.

One pipeline, one checkpoint, one crash after the other. A row of the matrix lets a process of each sink come to a step
and wait there; then something is killed. So a row tries a step of every sink at once, and what Spark's own sink for
Parquet, and all other processes, are doing at that moment.
"""

import os
import signal
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import pytest

from barnabas.spark.sink.steps import Step as TopicStep
from barnabas.spark.tables.steps import Step as TableStep
from tests.conformance.broker.served import ServedBroker
from tests.spark.crashes.processes import is_running
from tests.spark.crashes.running import Armed, CrashingPipeline

Victim: TypeAlias = Literal["driver", "workers", "broker", "all but workers"]

IN_DRIVER: Final = {
    TopicStep.ALL_PREPARED,
    TopicStep.INTENDED,
    TopicStep.PART_PUBLISHED,
    TopicStep.BATCH_PUBLISHED,
}
IN_TASKS: Final[set[Enum]] = {*TopicStep, TableStep.WRITTEN} - IN_DRIVER


def tables(step: TableStep) -> dict[str, TableStep]:
    return {"delta": step, "merge": step, "iceberg": step}


CREATED: Final[Armed] = {"topic": TopicStep.BATCH_PUBLISHED, **tables(TableStep.CREATED)}
STARTED: Final[Armed] = {"topic": TopicStep.STARTED, **tables(TableStep.WRITTEN)}
READY: Final[Armed] = {"topic": TopicStep.READY, **tables(TableStep.READY)}
SENT: Final[Armed] = {"topic": TopicStep.SENT, "merge": TableStep.CLEARED}
MARKED: Final[Armed] = {"topic": TopicStep.MARKED, **tables(TableStep.READY)}
PREPARED: Final[Armed] = {"topic": TopicStep.PREPARED, **tables(TableStep.COMMITTED)}
ALL_PREPARED: Final[Armed] = {"topic": TopicStep.ALL_PREPARED, **tables(TableStep.COMMITTED)}
INTENDED: Final[Armed] = {"topic": TopicStep.INTENDED, **tables(TableStep.READY)}
PART_PUBLISHED: Final[Armed] = {"topic": TopicStep.PART_PUBLISHED, "merge": TableStep.COMMITTED}
BATCH_PUBLISHED: Final[Armed] = {"topic": TopicStep.BATCH_PUBLISHED, "merge": TableStep.CLEARED}
EVERY: Final = (
    STARTED,
    READY,
    SENT,
    MARKED,
    PREPARED,
    ALL_PREPARED,
    INTENDED,
    PART_PUBLISHED,
    BATCH_PUBLISHED,
)
# For whoever changes a sink. Tables are made once: what is of that comes first.
ALL: Final[list[tuple[Victim, Armed]]] = [
    ("driver", CREATED),
    *[("workers", armed) for armed in EVERY],
    *[("broker", armed) for armed in EVERY],
    *[("driver", armed) for armed in EVERY],
    *[("all but workers", armed) for armed in (STARTED, SENT, MARKED, ALL_PREPARED, INTENDED, PART_PUBLISHED)],
]
# Every step of every sink. A driver takes many seconds to start, so it dies as seldom as that allows.
SOME: Final[list[tuple[Victim, Armed]]] = [
    ("driver", CREATED),
    ("workers", STARTED),
    ("workers", {"topic": TopicStep.READY}),
    ("workers", {"topic": TopicStep.SENT}),
    ("broker", MARKED),
    ("workers", {"topic": TopicStep.PREPARED}),
    ("workers", {"topic": TopicStep.INTENDED}),
    ("driver", {"topic": TopicStep.PART_PUBLISHED, **tables(TableStep.COMMITTED), "merge": TableStep.CLEARED}),
    ("all but workers", {"topic": TopicStep.ALL_PREPARED, **tables(TableStep.READY), "merge": TableStep.COMMITTED}),
]
ROWS: Final = ALL if os.environ.get("TEST_CRASHES") == "all" else SOME


def test_every_step_is_in_the_matrix() -> None:
    tried = {(sink, step) for _, armed in SOME for sink, step in armed.items()}
    of_tables = {(sink, step) for step in TableStep for sink in ("delta", "merge", "iceberg")}
    # Columns are added to a table in `test_tables`; only merges have something to clear.
    of_tables -= {(sink, TableStep.EVOLVED) for sink in ("delta", "merge", "iceberg")}
    of_tables -= {(sink, TableStep.CLEARED) for sink in ("delta", "iceberg")}

    assert tried == {("topic", step) for step in TopicStep} | of_tables


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(f"{sink}.{step.value}" for sink, step in value.items())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker
    assert "Traceback" not in broker.log, broker.log


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, served: ServedBroker) -> Iterator[CrashingPipeline]:
    running = CrashingPipeline(tmp_path_factory.mktemp("pipeline"), served)
    running.start()
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.parametrize(("victim", "armed"), ROWS, ids=name_of)
def test_output_equals_input_after_the_death_of(
    victim: Victim, armed: Armed, pipeline: CrashingPipeline, served: ServedBroker
) -> None:
    failures = len(pipeline.failures)
    is_survived = victim == "broker" or (victim == "workers" and all(step in IN_TASKS for step in armed.values()))
    pipeline.arm(armed)
    pipeline.feed()
    waiting = pipeline.wait_until_reached()
    match victim:
        case "driver":
            pipeline.kill()
            pipeline.start()
        case "workers":
            for pid in waiting:
                os.kill(pid, signal.SIGKILL)
        case "broker":
            served.kill()
            served.start()
            pipeline.go_on()
        case "all but workers":
            lose(pipeline, waiting)
    if not is_survived:
        pipeline.feed()  # all may be there by now; with this, the batch has been run again too
    pipeline.wait_until_all_is_there()
    pipeline.check()
    # Tasks are tried again, and brokers waited for; a commit that dies ends its query, and all begin anew.
    assert not is_survived or pipeline.failures[failures:] == []


def lose(pipeline: CrashingPipeline, waiting: set[int]) -> None:
    """Workers that Spark knows nothing of any more, and that go on when others have done their work."""
    pipeline.kill(but=waiting)
    pipeline.start()
    pipeline.feed()
    pipeline.wait_until_all_is_there()
    assert all(is_running(pid) for pid in waiting)
    pipeline.go_on()
    pipeline.wait_until_ended(waiting)
