"""Produce on a whole broker: timestamps that are too far off, or replaced."""

from typing import Any

import pytest

from barnabas.core.records.batch import TimestampType
from barnabas.services.broker import Broker
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import header_of, records_of
from tests.unit.edge.kafka.support import create, run

DAY_MS = 86_400_000


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
def test_timestamps_too_far_ahead_are_refused(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", message_timestamp_after_max_ms="1000", **settings)
        caller = Caller(broker)
        assert await caller.refusal("t", batch(timestamp=NOW_MS + 1001)) == 32
        assert await caller.refusal("t", batch(timestamp=2**63 - 1)) == 32
        assert await caller.refusal("t", batch(timestamp=NOW_MS + 1000)) == 0
        assert await caller.refusal("t", batch(timestamp=-1)) == 0

    run(scenario)


def test_timestamps_too_old_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", message_timestamp_before_max_ms="1000")
        caller = Caller(broker)
        assert await caller.refusal("t", batch(timestamp=NOW_MS - 1001)) == 32
        assert await caller.refusal("t", batch(timestamp=0)) == 32
        assert await caller.refusal("t", batch(timestamp=NOW_MS - 1000)) == 0
        assert await caller.refusal("t", batch(timestamp=-1)) == 0

    run(scenario)


def test_log_append_time_replaces_any_timestamp_and_is_told() -> None:
    async def scenario(broker: Broker) -> None:
        await create(
            broker,
            "t",
            message_timestamp_type="LogAppendTime",
            message_timestamp_before_max_ms="1",
            message_timestamp_after_max_ms="1",
        )
        for timestamp in (5, NOW_MS + 10 * DAY_MS):
            answer = await Caller(broker).produced("t", batch(timestamp=timestamp))
            assert answer.error_code.value == 0
            assert round(answer.log_append_time.timestamp() * 1000) == NOW_MS
        assert {record.timestamp for record in records_of(broker, "t")} == {NOW_MS}
        assert header_of(broker, "t").timestamp_type is TimestampType.LOG_APPEND_TIME

    run(scenario)
