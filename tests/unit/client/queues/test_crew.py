"""Handlers of a queue in several threads, and Ctrl-C while they are at work."""

import os
import signal
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from barnabas.client.message import Message
from barnabas.client.queues.job import Job
from barnabas.client.queues.locks import Ack, Lock, Place
from barnabas.client.queues.queue import _Crew
from barnabas.core.records.batch import TimestampType

WAIT_S = 10.0
MOMENT_S = 0.3  # in which a crew that does not wait would have ended


class FakeQueue:
    """Hands out so many jobs, and notes what became of them."""

    def __init__(self, count: int) -> None:
        self._guard = threading.Lock()
        self._left = count
        self.stopped = threading.Event()
        self.answers: list[Ack] = []

    def take(self) -> Job | None:
        with self._guard:
            if self.stopped.is_set() or not self._left:
                return None
            self._left -= 1
        message = Message("jobs", 0, self._left, 0, TimestampType.CREATE_TIME, None, b"", ())
        lock = Lock(Place(UUID(int=1), 0), self._left, expires_at=0, renew_at=0, give_up_at=0)
        return Job(message, 1, lock, self)

    def answer(self, _job: Job, _lock: Lock, answer: Ack) -> None:
        self.answers.append(answer)

    def stop(self) -> None:
        self.stopped.set()


def crew_of(queue: Any, handler: Any) -> _Crew:
    return _Crew(queue, handler, lambda *_arguments: None)


def test_ctrl_c_waits_for_every_handler_that_is_at_work() -> None:
    queue = FakeQueue(10)
    at_work = threading.Barrier(3)
    ended_before: list[bool] = []

    def handle(_job: Job) -> None:
        if at_work.wait(WAIT_S) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        assert queue.stopped.wait(WAIT_S)
        ended_before.append(crew.ended.wait(MOMENT_S))

    crew = crew_of(queue, handle)
    with pytest.raises(KeyboardInterrupt):
        crew.run(3)
    assert ended_before == [False] * 3
    assert queue.answers == [Ack.ACCEPT] * 3


def test_ctrl_c_before_all_threads_have_begun_begins_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue(10)
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    crew = crew_of(queue, lambda _job: None)
    with pytest.raises(KeyboardInterrupt):
        crew.run(3)
    for thread in started:
        thread.join(WAIT_S)
    assert queue.stopped.is_set()
    assert queue.answers == []


def test_a_crew_ends_when_its_queue_has_no_more_jobs() -> None:
    queue = FakeQueue(50)
    assert crew_of(queue, lambda _job: time.sleep(0)).run(4) == 50
    assert queue.answers == [Ack.ACCEPT] * 50
