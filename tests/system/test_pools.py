"""Work of different urgency has threads of its own: batches that take long to open hold up no sync and no read."""

import threading
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.offload import Threads
from barnabas.services import opening
from barnabas.services import produce as producing
from barnabas.wire.apis import PRODUCE
from tests.system.running import Client, check_round_trip, create_topic, read_answer, request_frame, running

HELD = 12  # more than all threads of a node


def test_batches_that_are_being_opened_hold_up_no_sync_and_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, begun = threading.Event(), threading.Semaphore(0)

    def open_late(*args: Any, **named: Any) -> bytearray:
        begun.release()
        assert may_open.wait(60)
        return opening.open_batch(*args, **named)

    monkeypatch.setattr(producing, "open_batch", open_late)
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v")]))
    data = [{"name": "packed", "partition_data": [{"index": 0, "records": batch}]}]
    frame = request_frame(PRODUCE, 9, acks=-1, timeout=20_000, topic_data=data)
    with running(tmp_path, **{"log.flush.policy": "fsync"}) as node:
        create_topic(node.port, "packed", compression_type="zstd")
        clients = [Client(node.port) for _ in range(HELD)]
        for client in clients:
            client.send(frame)
        assert begun.acquire(timeout=30)
        check_round_trip(node.port)
        may_open.set()
        for client in clients:
            answer = client.receive()
            assert answer is not None
            placed = read_answer(PRODUCE, 9, answer).responses[0].partition_responses[0]
            assert placed.error_code.value == 0
            client.socket.close()


def test_every_pool_works_when_all_others_are_full() -> None:
    threads = Threads.of_system(reads=1)
    pools = [getattr(threads, name)._pool for name in Threads.__slots__]
    try:
        for pool in pools:
            may_end = threading.Event()
            held = [pool.submit(may_end.wait, 60) for _ in range(20)]
            for other in pools:
                if other is not pool:
                    assert other.submit(lambda: 1).result(60) == 1
            may_end.set()
            assert all(each.result(60) for each in held)
    finally:
        threads.close()
