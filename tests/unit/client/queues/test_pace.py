from barnabas.client.queues.pace import Pace


def test_slow_workers_get_a_job_each_and_none_ahead() -> None:
    pace = Pace(100)
    assert pace.room(0.0, waiting_count=3, buffered_count=0) == 3
    assert pace.room(0.0, waiting_count=0, buffered_count=0) == 0


def test_as_many_are_fetched_ahead_as_were_finished_in_the_last_second() -> None:
    pace = Pace(100)
    for number in range(10):
        pace.note_finished(number / 10)
    assert pace.room(0.9, waiting_count=1, buffered_count=4) == 7
    assert pace.room(1.45, waiting_count=0, buffered_count=0) == 5
    assert pace.room(5.0, waiting_count=0, buffered_count=0) == 0


def test_no_more_than_the_limit_is_fetched_ahead() -> None:
    pace = Pace(2)
    for _ in range(10):
        pace.note_finished(1.0)
    assert pace.room(1.0, waiting_count=0, buffered_count=0) == 2
    assert pace.room(1.0, waiting_count=0, buffered_count=9) == 0
