"""The raw reader's bookkeeping: what an answer moves, and what it must not."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.errors import Unreachable
from barnabas.client.fetcher import Fetcher, _Patience, _Position, _wait_readable
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.records.record import Record, encode_batch


@pytest.fixture
def fetcher() -> Fetcher:
    return Fetcher(Settings("nowhere:1"), "t")


def batch(*offsets: int) -> bytes:
    return bytes(encode_batch([Record(offset, 0, None, b"v") for offset in offsets]))


def partition(id_: int, records: bytes | None = None, *, end: int = 100, error_code: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        partition_index=id_,
        error_code=error_code,
        records=records,
        high_watermark=end,
        last_stable_offset=end,
        aborted_transactions=None,
    )


def answer(*partitions: SimpleNamespace) -> Any:
    return SimpleNamespace(error_code=0, responses=(SimpleNamespace(partitions=partitions),))


def test_positions_move_past_the_last_whole_batch(fetcher: Fetcher) -> None:
    positions = {0: _Position(0, 100)}
    records = batch(0, 1) + batch(2, 5) + batch(6)[:-1]

    (fetched,) = fetcher._advance(positions, [0], answer(partition(0, records)))

    assert fetched.records == records
    assert positions[0].next_offset == 6


def test_a_partition_that_reached_its_end_is_done(fetcher: Fetcher) -> None:
    positions = {0: _Position(0, 2), 1: _Position(0, 3)}

    fetcher._advance(positions, [0, 1], answer(partition(0, batch(0, 1)), partition(1, batch(0, 1))))

    assert list(positions) == [1]


def test_an_answer_with_an_error_moves_nothing(fetcher: Fetcher) -> None:
    positions = {0: _Position(0, 9), 1: _Position(7, 9)}

    with pytest.raises(OffsetOutOfRange, match="t-1 at offset 7"):
        fetcher._advance(positions, [0, 1], answer(partition(0, batch(0, 1)), partition(1, error_code=1)))

    assert positions[0].next_offset == 0


def test_nothing_at_all_means_that_the_rest_was_compacted_away(fetcher: Fetcher) -> None:
    positions = {0: _Position(0, 9), 1: _Position(0, 9)}

    fetcher._advance(positions, [0, 1], answer(partition(0, b""), partition(1)))

    assert positions == {}


def test_nothing_beside_something_means_only_that_there_was_no_room(fetcher: Fetcher) -> None:
    positions = {0: _Position(0, 9), 1: _Position(0, 9)}

    fetcher._advance(positions, [0, 1], answer(partition(0, batch(0, 1)), partition(1)))

    assert list(positions) == [1, 0]  # and it goes first next time


def test_nothing_below_a_watermark_that_lags_is_waited_for(fetcher: Fetcher) -> None:
    positions = {0: _Position(5, 9)}

    assert fetcher._advance(positions, [0], answer(partition(0, end=5))) == []
    assert positions[0].next_offset == 5


def test_a_leader_that_moved_is_tried_again_until_patience_ends(fetcher: Fetcher) -> None:
    with pytest.raises(BarnabasError) as moved:
        fetcher._advance({0: _Position(0, 9)}, [0], answer(partition(0, error_code=6)))

    patience = _Patience()
    fetcher._start_over(moved.value, patience)
    with pytest.raises(OffsetOutOfRange):
        fetcher._start_over(OffsetOutOfRange("gone"), patience)
    patience.deadline = 0
    with pytest.raises(BarnabasError, match="t-0"):
        fetcher._start_over(moved.value, patience)


def test_that_a_partition_does_not_exist_is_believed_when_it_is_said_again(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience, unknown = _Patience(), UnknownTopicOrPartition("t-0 does not exist")

    fetcher._start_over(unknown, patience)
    monkeypatch.setattr("time.monotonic", lambda now=patience.deadline: now)
    with pytest.raises(UnknownTopicOrPartition):
        fetcher._start_over(unknown, patience)


def test_what_tls_has_taken_off_the_socket_is_not_waited_for() -> None:
    silent, other = socket.socketpair()
    with silent, other:
        idle = SimpleNamespace(has_buffered=False, fileno=silent.fileno)
        ready = SimpleNamespace(has_buffered=True, fileno=silent.fileno)

        assert _wait_readable([idle, ready]) == [ready]  # type: ignore[list-item]


def test_nobody_there_is_said() -> None:
    nobody = Fetcher(Settings("127.0.0.1:1"), "t")
    with pytest.raises(Unreachable, match="cannot connect to"):
        nobody.partition_ids()
