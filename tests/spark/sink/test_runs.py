"""Runs of a query that is killed and run again, without Spark: its tasks and drivers, in every order that hurts.

A task prepares, a driver publishes; a `Run` is what one start of the query has of both.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barnabas.client import Bus
from barnabas.client.batch_transactions import BatchTransaction
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import TransactionFenced, TransactionTimedOut
from barnabas.core.errors import InvalidRequest
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.committing import BatchPublisher
from barnabas.spark.sink.ledger import Intent, Ledger
from barnabas.spark.sink.messages import ShareWritten
from barnabas.spark.sink.options import WriteOptions, parse_options
from barnabas.spark.sink.preparing import KEPT_BYTES, prepare_share
from barnabas.spark.sink.shares import Prepared, Share, ShareRows
from barnabas.spark.sink.steps import TopicStep

LAYOUT = Layout("out", {"value": 0})
OWNER = "query"
ROWS: Mapping[int, list[str]] = {0: ["a", "b"], 1: ["c"], 2: ["d", "e", "f"]}
ALL = sorted(value for values in ROWS.values() for value in values)


class Crash(BaseException):
    """Nobody catches it."""


class Run:
    """One start of the query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self.publisher = BatchPublisher(options, OWNER)

    def prepare(self, task: int, values: list[str], *, batch_id: int = 0, attempt: int = 0) -> ShareWritten:
        rows = ShareRows(pa.table({"value": values}).to_batches(), KEPT_BYTES)
        share = Share(OWNER, task, batch_id, attempt)
        return prepare_share(self._options, LAYOUT, share, rows, keep=False)

    def prepare_all(self, rows: Mapping[int, list[str]] = ROWS, *, batch_id: int = 0) -> list[ShareWritten]:
        return [self.prepare(task, values, batch_id=batch_id) for task, values in rows.items()]

    def publish(self, shares: list[ShareWritten], *, batch_id: int = 0) -> None:
        self.publisher.publish(batch_id, shares)


@pytest.fixture
def options(bus: Bus, barnabas_broker: Any, tmp_path: Path) -> WriteOptions:
    bus.create_topic("out", partitions=2)
    given = {
        "kafka.bootstrap.servers": barnabas_broker.bootstrap,
        "topic": "out",
        "checkpointLocation": str(tmp_path),
        "transactionTimeout": "1m",
    }
    (tmp_path / "offsets").mkdir()
    for number in range(5):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{{"t":{{"0":{number}}}}}')
    return parse_options(given, "stream")


@pytest.fixture
def start(options: WriteOptions) -> Iterator[Callable[[], Run]]:
    runs: list[Run] = []

    def start_run() -> Run:
        runs.append(Run(options))
        return runs[-1]

    yield start_run
    for run in runs:
        run.publisher.close()


def published(bus: Bus) -> list[str]:
    return sorted((message.value or b"").decode() for message in bus.consume("out", until_end=True))


def seen_at_all(bus: Bus) -> list[str]:
    reading = bus.consume("out", until_end=True, isolation="read_uncommitted")
    return sorted((message.value or b"").decode() for message in reading)


def crash_at(monkeypatch: pytest.MonkeyPatch, step: TopicStep) -> None:
    def reached(at: TopicStep) -> None:
        if at is step:
            raise Crash

    monkeypatch.setattr(steps, "reached", reached)


def publish_up_to(
    step: TopicStep, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> tuple[Run, list[ShareWritten]]:
    """A run that prepares everything, and whose driver dies at a step."""
    run = start()
    shares = run.prepare_all()
    with monkeypatch.context() as patched:
        crash_at(patched, step)
        with pytest.raises(Crash):
            run.publish(shares)
    return run, shares


def take_over(options: WriteOptions, transactional_id: str) -> None:
    """Abort what is open, as the cluster does when its time is over."""
    with closing(Brokers(options.settings)) as brokers:
        BatchTransaction(Coordinators(brokers), transactional_id, timeout_ms=1000, patience_s=10).initialise(10)


def test_what_is_prepared_is_seen_when_the_driver_publishes_it(bus: Bus, start: Callable[[], Run]) -> None:
    run = start()
    shares = run.prepare_all()
    assert published(bus) == []

    run.publish(shares)
    assert published(bus) == ALL

    run.publish(run.prepare_all({0: ["g"]}, batch_id=1), batch_id=1)
    assert published(bus) == sorted([*ALL, "g"])
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_run_that_died_before_its_intent_has_published_nothing(bus: Bus, start: Callable[[], Run]) -> None:
    start().prepare_all()

    again = start()
    shares = again.prepare_all()
    assert [share.was_published_before for share in shares] == [False] * 3
    again.publish(shares)

    assert published(bus) == ALL


@pytest.mark.parametrize("step", [TopicStep.INTENDED, TopicStep.PART_PUBLISHED])
def test_what_a_driver_intended_is_carried_out_by_the_next_run(
    step: TopicStep, bus: Bus, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_up_to(step, start, monkeypatch)

    again = start()
    shares = again.prepare_all()
    again.publish(shares)

    assert all(share.was_published_before for share in shares), "nothing is written a second time"
    assert published(bus) == ALL
    assert seen_at_all(bus) == ALL


def test_an_intent_is_carried_out_also_for_tasks_that_are_not_run_again(
    bus: Bus, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are dealt out in another way, to two tasks; or the second has none by now."""
    publish_up_to(TopicStep.INTENDED, start, monkeypatch)

    again = start()
    shares = again.prepare_all({0: ["a", "b", "c"], 1: ["d", "e", "f"]})
    again.publish(shares)
    assert published(bus) == ALL

    nobody = start()
    nobody.publish([ShareWritten(OWNER, 0, 0)])
    assert published(bus) == ALL


def test_an_intent_whose_tasks_have_no_rows_any_more_is_carried_out(
    bus: Bus, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_up_to(TopicStep.INTENDED, start, monkeypatch)

    start().publish([ShareWritten(OWNER, 0, 0)])

    assert published(bus) == ALL


def test_a_share_that_ran_out_of_time_after_the_intent_is_published_again_and_no_other(
    bus: Bus, start: Callable[[], Run], options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_up_to(TopicStep.PART_PUBLISHED, start, monkeypatch)
    take_over(options, Share(OWNER, 1, 0).transactional_id(options.prefix))

    again = start()
    shares = again.prepare_all()
    assert [share.was_published_before for share in shares] == [True, False, True]
    again.publish(shares)

    assert published(bus) == ALL


def test_a_driver_that_finds_a_share_aborted_says_so_and_the_next_run_publishes_it(
    bus: Bus, start: Callable[[], Run], options: WriteOptions
) -> None:
    first = start()
    shares = first.prepare_all()
    take_over(options, Share(OWNER, 1, 0).transactional_id(options.prefix))

    with pytest.raises(TransactionTimedOut, match="1 of 3 transactions of batch 0"):
        first.publish(shares)
    again = start()
    again.publish(again.prepare_all())

    assert published(bus) == ALL


def test_a_batch_that_took_too_long_is_not_published_in_part(
    bus: Bus, start: Callable[[], Run], options: WriteOptions
) -> None:
    run = start()
    shares = run.prepare_all()
    take_over(options, Share(OWNER, 1, 0).transactional_id(options.prefix))
    shares[0].began_at_s -= 60

    with pytest.raises(TransactionTimedOut, match="Nothing was published"):
        run.publish(shares)

    assert published(bus) == []
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_write_that_nobody_runs_again_is_not_published_in_part_when_a_task_lost_its_id(
    bus: Bus, barnabas_broker: Any, options: WriteOptions
) -> None:
    """To an attempt of another try at its stage, which is counted from 0 again."""
    given = {"kafka.bootstrap.servers": barnabas_broker.bootstrap, "topic": "out"}
    run = Run(parse_options(given, "batch"))
    shares = run.prepare_all()
    take_over(options, Share(OWNER, 1, 0).transactional_id(options.prefix))

    with closing(run.publisher), pytest.raises(TransactionTimedOut, match="Nothing was published"):
        run.publish(shares)

    assert published(bus) == []
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_share_that_the_cluster_has_ended_after_the_intent_is_published_again(
    bus: Bus, options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction is prepared in the cluster's eyes: it ends each when its time is over."""
    runs = [Run(dataclasses.replace(options, transaction_timeout_ms=1_000)) for _ in range(2)]
    shares = runs[0].prepare_all()
    crash_at(monkeypatch, TopicStep.INTENDED)
    with pytest.raises(Crash):
        runs[0].publish(shares)
    monkeypatch.undo()
    deadline = time.monotonic() + 60
    while bus.transactions(states=["Ongoing"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert published(bus) == []

    again = runs[1].prepare_all()
    assert [share.was_published_before for share in again] == [False] * 3
    runs[1].publish(again)

    assert published(bus) == ALL
    for run in runs:
        run.publisher.close()


def test_a_driver_that_was_replaced_publishes_nothing(bus: Bus, start: Callable[[], Run]) -> None:
    """It had hung since its tasks were done; the other run is complete."""
    hung = start()
    old = hung.prepare_all()
    other = start()
    other.publish(other.prepare_all())
    other.publish(other.prepare_all({0: ["g"]}, batch_id=1), batch_id=1)

    with pytest.raises(TransactionFenced, match="another run"):
        hung.publish(old)

    assert published(bus) == sorted([*ALL, "g"])


def test_a_driver_that_hung_and_publishes_while_another_run_writes_does_it_once(
    bus: Bus, start: Callable[[], Run], options: WriteOptions
) -> None:
    """Its tasks were second attempts, so the other run's do not take their ids over."""
    hung = start()
    old = [hung.prepare(task, values, attempt=1) for task, values in ROWS.items()]
    other = start()
    new = other.prepare_all()

    hung.publish(old)
    with pytest.raises(TransactionFenced, match="another run"):
        other.publish(new)
    third = start()
    shares = third.prepare_all()
    third.publish(shares)

    assert all(share.was_published_before for share in shares)
    assert published(bus) == ALL
    assert bus.transactions(states=["Ongoing"]) == []


def test_of_two_attempts_at_a_task_one_is_published_and_the_other_keeps_nobody_waiting(
    bus: Bus, start: Callable[[], Run]
) -> None:
    run = start()
    shares = run.prepare_all()
    run.prepare(1, ROWS[1], attempt=1)  # of a speculative task, which Spark denies

    run.publish(shares)

    assert published(bus) == ALL
    assert bus.transactions(states=["Ongoing"]) == []


def test_an_attempt_that_lost_is_aborted_after_each_batch_that_took_long(bus: Bus, start: Callable[[], Run]) -> None:
    """As tasks do that are tried a second time meanwhile. Nothing may come after it for hours."""
    run = start()
    run.publish(run.prepare_all())
    shares = run.prepare_all(batch_id=1)
    run.prepare(1, ROWS[1], batch_id=1, attempt=1)
    shares[0].began_at_s -= 5

    run.publish(shares, batch_id=1)

    assert published(bus) == sorted([*ALL, *ALL])
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_failed_attempt_is_aborted_when_a_later_one_is_published(bus: Bus, start: Callable[[], Run]) -> None:
    run = start()
    failed = run.prepare_all()
    shares = [failed[0], run.prepare(1, ROWS[1], attempt=2), failed[2]]

    run.publish(shares)

    assert published(bus) == ALL
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_batch_that_failed_leaves_nothing_open(bus: Bus, start: Callable[[], Run]) -> None:
    run = start()
    shares = run.prepare_all()
    run.prepare(3, ["x"], attempt=1)  # told nobody

    run.publisher.abort(0, range(4), [share.prepared for share in shares[:2] if share.prepared])

    assert published(bus) == []
    assert bus.transactions(states=["Ongoing"]) == []


def test_a_batch_that_is_intended_is_not_aborted(
    bus: Bus, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark calls `abort` when `commit` has failed."""
    first, shares = publish_up_to(TopicStep.INTENDED, start, monkeypatch)

    first.publisher.abort(0, range(3), [share.prepared for share in shares if share.prepared])
    start().publish([ShareWritten(OWNER, 0, 0)])

    assert published(bus) == ALL


def test_other_rows_than_were_published_are_refused(bus: Bus, start: Callable[[], Run], tmp_path: Path) -> None:
    run = start()
    run.publish(run.prepare_all())
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchTimestampMs":2}\n{"t":{"0":77}}')

    with pytest.raises(InvalidRequest, match="with other offsets of its source") as refused:
        start().prepare(0, ROWS[0])

    assert str(refused.value).endswith("""'startingOffsets' right after what was published: {"t":{"0":0}}""")
    assert seen_at_all(bus) == ALL


def test_an_old_checkpoint_is_refused_also_where_its_batches_had_no_rows_so_far(
    bus: Bus, start: Callable[[], Run], tmp_path: Path
) -> None:
    """Batch 1 of the copy ended elsewhere than the one that was published, and nothing of it was to be written."""
    run = start()
    run.publish(run.prepare_all(batch_id=1), batch_id=1)
    (tmp_path / "offsets" / "1").write_text('v1\n{"batchTimestampMs":2}\n{"t":{"0":0}}')

    with pytest.raises(InvalidRequest, match="batch 1 of 'query' was published with other offsets") as refused:
        start().prepare(0, ["f"], batch_id=2)

    assert str(refused.value).endswith("""'startingOffsets' right after what was published: {"t":{"0":1}}""")
    assert seen_at_all(bus) == ALL


def test_a_query_goes_on_where_its_checkpoint_does_not_have_the_last_batch_any_more(
    bus: Bus, start: Callable[[], Run], tmp_path: Path
) -> None:
    run = start()
    run.publish(run.prepare_all(batch_id=1), batch_id=1)
    (tmp_path / "offsets" / "1").unlink()

    again = start()
    again.publish([again.prepare(0, ["g"], batch_id=2)], batch_id=2)

    assert published(bus) == sorted([*ALL, "g"])


def test_an_old_checkpoint_leads_on_only_when_all_before_is_published(
    bus: Bus, start: Callable[[], Run], options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died while it published batch 1, and its disk with it; what is left is a copy from before batch 0."""
    run = start()
    run.publish(run.prepare_all())
    shares = run.prepare_all({0: ["g"], 1: ["h"]}, batch_id=1)
    with monkeypatch.context() as patched:
        crash_at(patched, TopicStep.PART_PUBLISHED)
        with pytest.raises(Crash):
            run.publish(shares, batch_id=1)

    with pytest.raises(InvalidRequest, match=re.escape('right after what was published: {"t":{"0":1}}')):
        start().prepare(0, ROWS[0])
    assert published(bus) == sorted([*ALL, "g", "h"])

    shares = run.prepare_all({0: ["i"], 1: ["j"]}, batch_id=2)
    with monkeypatch.context() as patched:
        crash_at(patched, TopicStep.PART_PUBLISHED)
        with pytest.raises(Crash):
            run.publish(shares, batch_id=2)
    take_over(options, Share(OWNER, 1, 0).transactional_id(options.prefix))

    with pytest.raises(InvalidRequest, match="newest checkpoint: only a part of batch 2 was published"):
        start().prepare(0, ROWS[0])


def test_a_ledger_names_many_shares_and_does_without_names_when_there_are_too_many(
    bus: Bus, options: WriteOptions
) -> None:
    bus.create_topic(options.progress_topic, partitions=50)
    with closing(Brokers(options.settings)) as brokers:
        coordinators = Coordinators(brokers)
        ledger = Ledger(coordinators, prefix=options.prefix, owner="many", topic=options.progress_topic)
        transaction = BatchTransaction(coordinators, "many", timeout_ms=60_000, patience_s=10)
        transaction.initialise(10)
        for count in (1, 1_000, 50_000, 2):
            shares = tuple(Prepared(task, 0, 10**6 + task * 7919, task % 7, task * 104_729) for task in range(count))
            intent = Intent(count, f"token-{count}", "t" * 249, "d" * 32, shares, "offsets" * 500)
            ledger.write(transaction, intent)
            transaction.end(commit=True)

            found = ledger.read(10)

            assert found is not None
            assert (found.batch_id, found.token, found.sink) == (count, f"token-{count}", "t" * 249)
            assert (found.shares, found.topics) == ((None, "") if count == 50_000 else (shares, "offsets" * 500))


def test_without_names_the_progress_of_each_task_tells(
    bus: Bus, start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start()
    shares = first.prepare_all()
    with monkeypatch.context() as patched:
        patched.setattr("barnabas.spark.sink.ledger._PARTITIONS", range(0))
        patched.setattr(first.publisher._ledger, "_keys", first.publisher._ledger._keys[:1])
        patched.setattr("barnabas.spark.sink.ledger._METADATA_BYTES", 1)
        crash_at(patched, TopicStep.PART_PUBLISHED)
        with pytest.raises(Crash):
            first.publish(shares)

    again = start()
    shares = again.prepare_all()
    assert [share.was_published_before for share in shares] == [True, False, False]
    again.publish(shares)

    assert published(bus) == ALL
