"""What HTTP and counting cost: a broker with metrics and the API beside one without, in turns, and counting alone.

Counting is always on. Its share is the processor time of what is done for each request, measured here in a loop, of
that which the broker takes for a produce of one record.
"""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

from barnabas.core.records.record import encode_batch
from barnabas.runtime.answers import Answer
from barnabas.runtime.request_counts import RequestCounts
from barnabas.runtime.traffic import Traffic
from bench.logs import make_records
from bench.measure import Row, compare, rate, seconds
from bench.raw_client import RawClient
from bench.served import Served, served

HTTP = "http.listener=127.0.0.1:19644"
MOST_COUNTING = 0.03
TOPIC = "counted"


def rows(*, quick: bool) -> Iterator[Row]:
    scale = 20 if quick else 1
    with ExitStack() as stack:
        off = stack.enter_context(served("log.flush.policy=os"))
        on = stack.enter_context(served("log.flush.policy=os", HTTP))
        _wait_for_api()
        yield Row(
            "exec to ready with HTTP",
            f"{on.ready_after_s:.2f} s",
            f"without {off.ready_after_s:.2f} s",
            off.ready_after_s / on.ready_after_s,
        )
        yield Row(
            "idle memory with HTTP",
            f"{on.memory() / 1e6:,.0f} MB",
            f"without {off.memory() / 1e6:,.0f} MB",
            off.memory() / on.memory(),
        )
        yield from _produce_rows(on, off, 40_000 // scale)
        yield _scrape_row()


def _wait_for_api() -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen("http://127.0.0.1:19644/api/v1/openapi.json", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the API did not come up")


def _produce_rows(on: Served, off: Served, count: int) -> Iterator[Row]:
    batch = bytes(encode_batch(make_records(1)))
    clients = {each: RawClient(each.bootstrap) for each in (on, off)}
    for client in clients.values():
        client.create_topic(TOPIC)

    def run(broker: Served) -> float:
        return seconds(lambda: clients[broker].produce_pipelined(TOPIC, batch, count=count, in_flight=8))

    found = compare(lambda: run(on), lambda: run(off), amount=count)
    yield Row(
        "one-record produces with HTTP",
        rate(found.ours, "requests/s"),
        f"without {rate(found.limit, 'requests/s')}",
        found.ratio,
    )
    before = off.processor_s()
    run(off)
    per_request_s = (off.processor_s() - before) / count
    counting_s = _counting_s(200_000)
    part = counting_s / per_request_s
    yield Row(
        "counting, of a one-record produce",
        f"{counting_s * 1e6:.2f} us",
        f"of {per_request_s * 1e6:.1f} us: {part:.1%}",
        1 - part,
        1 - MOST_COUNTING,
    )
    for client in clients.values():
        client.close()


def _counting_s(count: int) -> float:
    """Processor time of what is counted for one produce; an empty loop is taken off."""
    counts, traffic = RequestCounts(), Traffic()
    answer: Answer = [b"x" * 60]
    begun = time.process_time()
    for _ in range(count):
        at = time.perf_counter_ns()
        counts.requests += 1
        counts.request_bytes += 120
        traffic.records_in += 1
        traffic.bytes_in += 90
        counts.note_answered(at, answer)
    took = time.process_time() - begun
    begun = time.process_time()
    for _ in range(count):
        pass
    return (took - (time.process_time() - begun)) / count


def _scrape_row() -> Row:
    took = seconds(lambda: urllib.request.urlopen("http://127.0.0.1:19644/metrics?partitions=1", timeout=10).close())
    return Row("a scrape of /metrics", f"{took * 1000:.1f} ms")
