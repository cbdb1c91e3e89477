"""What pages make of answers: rows with fixed names, requests from what was typed, the ring of a tail."""

import json
from typing import Any

import pytest

from barnabas.console import models
from barnabas.console.api import Event
from barnabas.console.pages.access import acl_row, entity_of, entity_text, limits_of, quota_row, user_row
from barnabas.console.pages.group import member_row, offset_rows
from barnabas.console.pages.messages import search_params
from barnabas.console.pages.nodes import map_row
from barnabas.console.pages.overview import health_of
from barnabas.console.pages.producing import body_of, headers_of
from barnabas.console.pages.record import cut, form_for
from barnabas.console.pages.tail import KEPT, SHOWN, WAITING, Ring
from barnabas.console.pages.topics import settings_of
from barnabas.console.pages.transactions import is_hanging
from barnabas.console.showing import Times


class FakeView:
    """As much of a view as these need."""

    times = Times()


def params(query: dict[str, str], *filters: str) -> dict[str, Any]:
    view: Any = FakeView()
    return search_params(query, list(filters), view)


def test_a_search_begins_with_the_newest_unless_the_address_says_otherwise() -> None:
    assert params({})["order"] == "newest"
    assert params({"from": "offset", "at": "7", "partition": "0, 3"}) == {
        "limit": "50",
        "budget_ms": "1000",
        "order": "oldest",
        "offset": "7",
        "partition": ["0", "3"],
    }
    assert params({"from": "time", "at": "2023-11-14 22:13:20"})["time"] == "1700000000000"
    assert params({"key": "k", "uncommitted": "1"}, "value:eq:1")["isolation"] == "read_uncommitted"


@pytest.mark.parametrize(
    "query", [{"from": "offset", "at": "x"}, {"from": "time", "at": "soon"}, {"partition": "a"}, {"partition": "-1"}]
)
def test_a_position_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"whole number|is no time"):
        params(query)


def test_a_record_to_be_written() -> None:
    assert body_of("", "v", "a: 1\nb: x: y", None, is_null=False) == {
        "key": None,
        "value": "v",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": "x: y"}],
        "partition": None,
    }
    assert body_of("k", "v", "", 2.0, is_null=True)["value"] is None
    with pytest.raises(ValueError, match="'what' is not 'NAME: VALUE'"):
        headers_of("what")


def test_settings_of_a_new_topic() -> None:
    assert settings_of("retention.ms = 5\n\ncleanup.policy=compact,delete") == {
        "retention.ms": "5",
        "cleanup.policy": "compact,delete",
    }
    with pytest.raises(ValueError, match="'retention' is not NAME=VALUE"):
        settings_of("retention")


def test_rows_have_names_of_ours_whatever_the_group_is_called() -> None:
    member = models.Member(
        member_id=":x",
        instance_id=None,
        client_id="<script>",
        host="/127.0.0.1",
        assignment=[models.TopicPartitions(topic="t", partitions=[0, 1])],
    )
    assert member_row(member) == {
        "client": "<script>",
        "host": "/127.0.0.1",
        "member": ":x",
        "holds": "t 0-1",
        "holds_class": "",
    }
    offset = models.GroupOffset(
        topic="t", partition=0, committed=1, end_offset=5, lag=4, lag_seconds=61.0, member_id=":x"
    )
    group = models.Group(
        group=":g",
        state="Stable",
        type="Classic",
        protocol="range",
        coordinator=1,
        members=[member],
        offsets=[offset],
        lag=4,
        lag_seconds=61,
        allowed=[],
    )
    (row,) = offset_rows(group)
    assert (row["lag"], row["behind"], row["member"]) == ("4", "1 min 1 s", "<script>")
    assert not any(name.startswith(":") for name in row)


def test_the_map_of_replicas_says_who_is_not_in_sync() -> None:
    def node(node_id: int) -> models.Node:
        return models.Node(
            node_id=node_id,
            host="h",
            port=1,
            rack=None,
            state="active",
            is_controller=False,
            is_voter=False,
            partitions_led=0,
            replicas=0,
            size_bytes=0,
            disk_total_bytes=-1,
            disk_free_bytes=-1,
        )

    partition = models.Partition(
        partition=0, leader=1, leader_epoch=0, replicas=[1, 2], in_sync=[1], start_offset=0, end_offset=0, sizes={}
    )
    topic = models.Topic(
        name="t", topic_id="", is_internal=False, partitions=[partition], settings=[], groups=[], allowed=[]
    )
    row = map_row(topic, [node(1), node(2), node(3)])
    assert (row["node_1"], row["node_2"], row["node_3"]) == ("leads 0", "not in sync 0", "-")
    assert row["node_2_class"] == "bad"


@pytest.mark.parametrize(
    ("controller", "counts", "word"),
    [
        (1, (0, 0, 0), "good"),
        (1, (2, 0, 0), "catching up"),
        (1, (2, 1, 0), "under min ISR"),
        (1, (2, 1, 1), "partitions offline"),
        (-1, (0, 0, 0), "no controller"),
    ],
)
def test_the_health_of_a_cluster_is_the_worst_that_is_known(
    controller: int, counts: tuple[int, int, int], word: str
) -> None:
    lacking, short, offline = counts
    cluster = models.Cluster(
        cluster_id="c",
        node_id=1,
        controller_id=controller,
        version="1",
        counts=models.Counts(
            nodes=1, topics=1, partitions=9, under_replicated=lacking, under_min_isr=short, offline=offline
        ),
        quorum=models.Quorum(leader_id=controller, epoch=1, high_watermark=1, members=[]),
        is_writable=True,
        is_export_allowed=True,
        needs_login=False,
        principal="User:a",
        allowed=[],
    )
    assert health_of(cluster)[0] == word


def test_a_transaction_hangs_when_it_is_open_for_longer_than_it_may() -> None:
    def transaction(state: str) -> models.Transaction:
        return models.Transaction(
            transactional_id="t", state=state, producer_id=1, coordinator=1, timeout_ms=1000, start_ms=5000
        )

    assert is_hanging(transaction("Ongoing"), 6001)
    assert not is_hanging(transaction("Ongoing"), 6000)
    assert not is_hanging(transaction("CompleteCommit"), 9000)


def event(offset: int) -> Event:
    record = {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "timestamp": 0,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": None,
        "headers": [],
    }
    return Event(f"0:{offset + 1}", "record", json.dumps(record))


def test_a_tail_keeps_the_last_ones_newest_first() -> None:
    ring = Ring()
    for offset in range(KEPT + 10):
        ring.take(event(offset))
        ring.flush()
    assert len(ring.records) == KEPT
    assert [each.offset for each in ring.shown()][:2] == [KEPT + 9, KEPT + 8]
    assert len(ring.shown()) == SHOWN
    assert (ring.seen, ring.dropped, ring.last_id) == (KEPT + 10, 0, f"0:{KEPT + 10}")


def test_a_paused_tail_waits_and_counts_what_it_gives_up() -> None:
    ring = Ring()
    ring.is_paused = True
    for offset in range(WAITING + 3):
        ring.take(event(offset))
    assert not ring.flush()
    assert ring.dropped == 3
    ring.take(Event("", "dropped", '{"offsets": 40}'))
    assert ring.dropped == 43
    ring.is_paused = False
    assert ring.flush()
    assert ring.shown()[0].offset == WAITING + 2


def test_content_is_shown_in_the_form_that_says_most() -> None:
    assert form_for(models.Content(encoding="utf8", data='{"a":1}', size=7, is_json=True)) == "json"
    assert form_for(models.Content(encoding="utf8", data="5", size=1, is_json=True)) == "text"
    assert form_for(models.Content(encoding="base64", data="AA==", size=1)) == "hex"
    assert len(cut("x" * 3_000_000)) < 1_001_000


def test_users_acls_and_quotas_as_rows() -> None:
    user = models.User(name="ada", mechanisms={"SCRAM-SHA-512": 4096})
    assert user_row(user)["mechanisms"] == "SCRAM-SHA-512 (4096 iterations)"
    acl = models.Acl(
        resource_type="topic",
        resource_name="orders-",
        pattern_type="prefixed",
        principal="User:ada",
        host="*",
        operation="read",
        permission="deny",
    )
    row = acl_row(3, acl)
    assert (row["permission"], row["resource"], row["host"]) == (
        "may not",
        "topics that begin with orders-",
        "anywhere",
    )
    quota = models.Quota(entity={"user": None, "client-id": "x"}, quotas={"producer_byte_rate": 1000.0})
    assert quota_row(0, quota)["entity"] == "user <default>, client-id x"
    assert quota_row(0, quota)["quotas"] == "producer_byte_rate=1000"


def test_quotas_from_what_was_typed() -> None:
    assert entity_of(" ada ", "<default>", "") == {"user": "ada", "client-id": None}
    assert entity_text({"user": "a\u202eb"}) == "user a\\u202eb"
    assert limits_of("producer_byte_rate=1e6\nconsumer_byte_rate=") == {
        "producer_byte_rate": 1e6,
        "consumer_byte_rate": None,
    }
    for wrong in ("producer_byte_rate", "producer_byte_rate=fast"):
        with pytest.raises(ValueError, match=r"NAME=VALUE|fast"):
            limits_of(wrong)
