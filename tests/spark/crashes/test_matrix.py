"""A crash between any two steps of a commit: every output equals the input, each record once.

One pipeline, one checkpoint, one crash after the other. A row of the matrix lets a process of each sink come to a step
and wait there; then something is killed. So a row tries a step of every sink at once, and what Spark's own sink for
Parquet, and all other processes, are doing at that moment. What dies may also be the rows: one that is broken raises
an error in the JVM, between the worker that reads and the worker that writes.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import pytest

from barnabas.spark.sink.steps import TopicStep
from barnabas.spark.source.steps import SourceStep
from barnabas.spark.tables.steps import TableStep
from tests.conformance.broker.served import ServedBroker
from tests.spark.crashes.processes import is_running, wait_for
from tests.spark.crashes.running import BROKEN, SINKS, Armed, CrashingPipeline

pytestmark = pytest.mark.xdist_group("crashes")  # one pipeline, and its rows in their order
Victim: TypeAlias = Literal["driver", "workers", "broker", "all but workers", "rows"]
Deaths: TypeAlias = Sequence[Armed]  # where the victims die; workers die there one after the other

IN_DRIVER: Final = {
    TopicStep.ALL_PREPARED,
    TopicStep.INTENDED,
    TopicStep.PART_PUBLISHED,
    TopicStep.BATCH_PUBLISHED,
}
IN_TASKS: Final[set[Enum]] = {*SourceStep, *TopicStep, TableStep.WRITTEN} - IN_DRIVER


def tables(step: TableStep) -> dict[str, TableStep]:
    return {"delta": step, "merge": step, "iceberg": step}


CREATED: Final[Armed] = {"topic": TopicStep.BATCH_PUBLISHED, **tables(TableStep.CREATED)}
STARTED: Final[Armed] = {"topic": TopicStep.STARTED, **tables(TableStep.WRITTEN)}
PART_READ: Final[Armed] = dict.fromkeys(SINKS, SourceStep.PART_READ)
READY: Final[Armed] = {"topic": TopicStep.READY, **tables(TableStep.READY)}
PART_SENT: Final[Armed] = {"topic": TopicStep.PART_SENT, **tables(TableStep.WRITTEN)}
SENT: Final[Armed] = {"topic": TopicStep.SENT, "merge": TableStep.CLEARED}
MARKED: Final[Armed] = {"topic": TopicStep.MARKED, **tables(TableStep.READY)}
PREPARED: Final[Armed] = {"topic": TopicStep.PREPARED, **tables(TableStep.COMMITTED)}
ALL_PREPARED: Final[Armed] = {"topic": TopicStep.ALL_PREPARED, **tables(TableStep.COMMITTED)}
INTENDED: Final[Armed] = {"topic": TopicStep.INTENDED, **tables(TableStep.READY)}
PART_PUBLISHED: Final[Armed] = {"topic": TopicStep.PART_PUBLISHED, "merge": TableStep.COMMITTED}
BATCH_PUBLISHED: Final[Armed] = {"topic": TopicStep.BATCH_PUBLISHED, "merge": TableStep.CLEARED}
EVERY: Final = (
    PART_READ,
    STARTED,
    READY,
    PART_SENT,
    SENT,
    MARKED,
    PREPARED,
    ALL_PREPARED,
    INTENDED,
    PART_PUBLISHED,
    BATCH_PUBLISHED,
)
# For whoever changes a sink. Tables are made once: what is of that comes first.
ALL: Final[list[tuple[Victim, Deaths]]] = [
    ("driver", [CREATED]),
    ("rows", [{}]),
    *[("workers", [armed]) for armed in EVERY],
    *[("broker", [armed]) for armed in EVERY],
    *[("driver", [armed]) for armed in EVERY],
    *[
        ("all but workers", [armed])
        for armed in (PART_READ, STARTED, PART_SENT, SENT, MARKED, ALL_PREPARED, INTENDED, PART_PUBLISHED)
    ],
]
# Every step of every sink. A driver takes many seconds to start, so it dies once; at other steps what dies is the
# process that commits, and its query begins anew in the same driver. A task may fail three times: the worker that
# writes dies at one step after the other of one batch.
SOME: Final[list[tuple[Victim, Deaths]]] = [
    ("workers", [CREATED]),
    ("rows", [{}]),
    ("workers", [PART_READ]),
    ("workers", [STARTED, {"topic": TopicStep.READY}, {"topic": TopicStep.PART_SENT}]),
    ("workers", [{"topic": TopicStep.SENT}, {"topic": TopicStep.PREPARED}]),
    ("broker", [MARKED]),
    ("workers", [{"topic": TopicStep.INTENDED}]),
    ("workers", [{"topic": TopicStep.PART_PUBLISHED, **tables(TableStep.COMMITTED), "merge": TableStep.CLEARED}]),
    ("all but workers", [{"topic": TopicStep.ALL_PREPARED, **tables(TableStep.READY), "merge": TableStep.COMMITTED}]),
]
ROWS: Final = ALL if os.environ.get("TEST_CRASHES") == "all" else SOME


def test_every_step_is_in_the_matrix() -> None:
    tried = {(sink, step) for _, deaths in SOME for armed in deaths for sink, step in armed.items()}
    of_tables = {(sink, step) for step in TableStep for sink in ("delta", "merge", "iceberg")}
    # Columns are added to a table in `test_tables`; only merges have something to clear.
    of_tables -= {(sink, TableStep.EVOLVED) for sink in ("delta", "merge", "iceberg")}
    of_tables -= {(sink, TableStep.CLEARED) for sink in ("delta", "iceberg")}

    of_sources = {(sink, step) for step in SourceStep for sink in SINKS}
    assert tried == {("topic", step) for step in TopicStep} | of_tables | of_sources


def name_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ";".join(",".join(f"{sink}.{step.value}" for sink, step in armed.items()) for armed in value)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, served: ServedBroker) -> Iterator[CrashingPipeline]:
    running = CrashingPipeline(tmp_path_factory.mktemp("pipeline"), served)
    running.start()
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.parametrize(("victim", "deaths"), ROWS, ids=name_of)
def test_output_equals_input_after_the_death_of(
    victim: Victim, deaths: Deaths, pipeline: CrashingPipeline, served: ServedBroker
) -> None:
    failures, errors = len(pipeline.failures), pipeline.count_errors(BROKEN)
    is_survived = victim in ("broker", "rows") or (
        victim == "workers" and all(step in IN_TASKS for armed in deaths for step in armed.values())
    )
    first, *later = deaths
    pipeline.arm(first)
    pipeline.feed(is_broken=victim == "rows")
    waiting = pipeline.wait_until_reached()
    match victim:
        case "driver":
            pipeline.kill()
            pipeline.start()
        case "workers":
            for armed in later:
                pipeline.arm(armed)  # before those die whose task is to come there when it is tried again
                kill_all(waiting)
                waiting = pipeline.wait_until_reached()
            kill_all(waiting)
        case "broker":
            served.kill()
            served.start()
            pipeline.go_on()
        case "rows":
            wait_for("a broken row in each sink", lambda: pipeline.count_errors(BROKEN) >= errors + len(SINKS))
        case "all but workers":
            lose(pipeline, waiting)
    if not is_survived:
        pipeline.feed()  # all may be there by now; with this, the batch has been run again too
    pipeline.wait_until_all_is_there()
    pipeline.check()
    # Tasks are tried again, and brokers waited for; a commit that dies ends its query, and all begin anew.
    assert not is_survived or pipeline.failures[failures:] == []


def kill_all(pids: set[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def lose(pipeline: CrashingPipeline, waiting: set[int]) -> None:
    """Workers that Spark knows nothing of any more, and that go on when others have done their work."""
    pipeline.kill(but=waiting)
    pipeline.start()
    pipeline.feed()
    pipeline.wait_until_all_is_there()
    assert all(is_running(pid) for pid in waiting)
    pipeline.go_on()
    pipeline.wait_until_ended(waiting)
