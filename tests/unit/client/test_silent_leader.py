"""Offsets of a partition whose leader does not answer in time: librdkafka gives an invalid offset then, no error."""

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.errors import Unreachable
from barnabas.client.topics import LATEST, Topics


class SilentLeaderAdmin:
    """As much of librdkafka's admin client as a lookup of offsets needs; partition 0 has a leader that is away."""

    def list_offsets(self, wanted: Iterable[Any], **_options: object) -> dict[Any, "Future[SimpleNamespace]"]:
        return {each: _found(confluent_kafka.OFFSET_INVALID if each.partition == 0 else 7) for each in wanted}


def _found(offset: int) -> "Future[SimpleNamespace]":
    answer: Future[SimpleNamespace] = Future()
    answer.set_result(SimpleNamespace(offset=offset))
    return answer


def test_an_offset_that_no_leader_gave_is_refused() -> None:
    topics = Topics(cast("AdminClient", SilentLeaderAdmin()), 1.0)

    assert topics.offsets("orders", [1], LATEST) == {1: 7}
    with pytest.raises(Unreachable, match="cannot look up offsets of orders-0: its leader does not answer"):
        topics.offsets("orders", [0, 1], LATEST)
