"""What the parts of a node count, read through the metrics they report to."""

from barnabas.node.node import _report
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.metrics import Number
from barnabas.services.broker import Broker
from barnabas.wire.apis import METADATA
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import create, run


def _read(broker: Broker) -> dict[str, Number]:
    return {
        f"{each.metric.name}{each.label and f' {each.label}'}": each.value
        for each in broker.metrics.read()
        if not isinstance(each.value, Histogram)
    }


def test_requests_are_counted_by_api() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        _report(broker, caller.server)
        before = _read(broker)
        await caller.request(METADATA, 12).read()
        await caller.request(METADATA, 12).read()
        after = _read(broker)
        assert after["requests_total metadata"] == before["requests_total metadata"] + 2
        assert after["requests_total produce"] == before["requests_total produce"]

    run(scenario)


def test_what_a_node_does_shows_in_its_metrics() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        _report(broker)
        before = _read(broker)
        await create(broker, "orders")
        await caller.produce("orders", batch(b"a")).read()
        after = _read(broker)
        assert after["metadata_commits_total"] == before["metadata_commits_total"] + 1
        assert after["logs_open"] == before["logs_open"] + 1
        assert after["flushes_total"] > before["flushes_total"]
        assert after["file_syncs_total"] > before["file_syncs_total"]
        assert (after["logs_unflushed"], after["log_dir_offline"], after["log_dir_full"]) == (0, False, False)
        assert (after["groups"], after["transactions_open"], after["fetch_sessions"]) == (0, 0, 0)

    run(scenario)
