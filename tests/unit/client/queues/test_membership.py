"""The thread that keeps a member in its group, on brokers that lose answers, fail or have a bug."""

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from barnabas.client.brokers import ClusterBroker
from barnabas.client.errors import Unreachable
from barnabas.client.queues.locks import Place
from barnabas.client.queues.membership import Member, Membership
from barnabas.client.queues.reader import JobReader, ReaderOptions
from barnabas.core.errors import GroupIdNotFound

TOPIC = UUID(int=1)
WAIT_S = 10.0
GROUP_ID_NOT_FOUND = 69
OPTIONS = ReaderOptions(linger_s=0, prefetch=0, max_hold_s=60, is_sync=False)

Answer = Callable[[dict[str, Any]], Any]


def answer(epoch: int, *, partitions: tuple[int, ...] | None = None, code: int = 0) -> SimpleNamespace:
    topics = [SimpleNamespace(topic_id=TOPIC, partitions=partitions)]
    return SimpleNamespace(
        error_code=code,
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=10),
        assignment=None if partitions is None else SimpleNamespace(topic_partitions=topics),
    )


class FakeBrokers:
    """One broker that coordinates, and answers a heartbeat by a function."""

    def __init__(self, respond: Answer) -> None:
        self._respond = respond
        self.heartbeats: list[dict[str, Any]] = []

    def another(self) -> "FakeBrokers":
        return FakeBrokers(self._respond)

    def coordinator(self, _key: str, _kind: Any) -> tuple[int, ClusterBroker]:
        return 0, ClusterBroker(1, "node", 1)

    def at(self, _address: Any) -> "FakeBrokers":
        return self

    def call(self, _api_key: int, values: dict[str, Any]) -> Any:
        self.heartbeats.append(values)
        return self._respond(values)

    def close(self) -> None:
        return


class Run:
    """A membership that runs, and what it told."""

    def __init__(self, respond: Answer) -> None:
        brokers: Any = FakeBrokers(respond)
        self.assigned: list[frozenset[Place]] = []
        self.failures: list[BaseException] = []
        self.told = threading.Event()
        self.membership = Membership(
            brokers, Member("workers", "me", ["jobs"]), on_assigned=self._assign, on_failure=self._fail
        )

    def _assign(self, places: frozenset[Place]) -> None:
        self.assigned.append(places)
        self.told.set()

    def _fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.told.set()

    def __enter__(self) -> "Run":
        self.membership.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.membership.close()


def test_a_bug_in_the_thread_of_heartbeats_is_handed_on() -> None:
    def respond(_values: dict[str, Any]) -> Any:
        raise ZeroDivisionError("a bug")

    with Run(respond) as run:
        assert run.told.wait(WAIT_S)
    assert [type(each) for each in run.failures] == [ZeroDivisionError]


def test_whoever_waits_for_jobs_gets_what_was_handed_on() -> None:
    brokers: Any = FakeBrokers(lambda _values: None)
    reader = JobReader(brokers, ["jobs"], "workers", "me", OPTIONS)
    reader.start()
    threading.Timer(0.05, reader.fail, [ZeroDivisionError("a bug")]).start()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        reader.take(WAIT_S)
    reader.close()


def test_a_bug_in_the_thread_that_fetches_is_handed_on() -> None:
    class NoMetadata(FakeBrokers):
        def another(self) -> "NoMetadata":
            return self

        def metadata(self, _topics: Any) -> Any:
            raise ZeroDivisionError("a bug")

    brokers: Any = NoMetadata(lambda _values: None)
    reader = JobReader(brokers, ["jobs"], "workers", "me", OPTIONS)
    reader.start()
    reader.assign(frozenset({Place(TOPIC, 0)}))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        reader.take(WAIT_S)
    reader.close()


def test_an_assignment_whose_answer_was_lost_is_asked_for_again() -> None:
    count = 0

    def respond(values: dict[str, Any]) -> Any:
        nonlocal count
        count += 1
        if count == 1:
            return answer(1, partitions=())
        if count == 2:  # it assigns a partition, in an answer that does not arrive
            raise Unreachable("the connection is lost")
        return answer(2, partitions=(0,) if values["subscribed_topic_names"] else None)

    with Run(respond) as run:
        assert run.told.wait(WAIT_S)
    assert run.assigned == [{Place(TOPIC, 0)}]


def test_a_member_whose_group_was_deleted_joins_again() -> None:
    joined: list[dict[str, Any]] = []
    is_again = threading.Event()

    def respond(values: dict[str, Any]) -> Any:
        if values["member_epoch"] != 0:
            return answer(0, code=GROUP_ID_NOT_FOUND)
        joined.append(values)
        if len(joined) == 2:
            is_again.set()
        return answer(5, partitions=(0,))

    with Run(respond) as run:
        assert is_again.wait(WAIT_S)
    assert run.failures == []


def test_a_group_of_another_type_is_refused() -> None:
    with Run(lambda _values: answer(0, code=GROUP_ID_NOT_FOUND)) as run:
        assert run.told.wait(WAIT_S)
    assert [type(each) for each in run.failures] == [GroupIdNotFound]
