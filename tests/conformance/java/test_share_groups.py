"""Share groups with Java's share consumer and kafka-share-groups, by a user whom ACLs allow as much."""

import json

import pytest

from tests.conformance.java.conftest import Secured
from tests.conformance.java.tools import (
    GROUPS,
    LIMIT_MS,
    SHARE_CONSUMER,
    SHARE_GROUPS,
    TOPICS,
    VERIFIABLE_SHARE_CONSUMER,
    Tools,
)

VALUES = [str(number) for number in range(20)]


@pytest.fixture(scope="module")
def tools(secured: Secured) -> Tools:
    """Of a user who may do no more than share groups need; the topic has twenty records."""
    admin = secured.admin
    admin.run(TOPICS, "--create", "--topic", "jobs", "--partitions", "1")
    admin.produce("jobs", *VALUES)
    admin.configs(
        "--alter", "--entity-type", "users", "--entity-name", "worker", "--add-config", "SCRAM-SHA-256=[password=w]"
    )
    grants = [
        "--operation",
        "Read",
        "--operation",
        "Delete",
        "--operation",
        "DescribeConfigs",
        "--operation",
        "AlterConfigs",
    ]
    admin.acls("--add", "--allow-principal", "User:worker", *grants, "--topic", "jobs", "--group", "*")
    return secured.user("SCRAM-SHA-256", "worker", "w")


def begin_at_the_start(tools: Tools, group: str) -> None:
    tools.configs(
        "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"
    )


def test_members_accept_release_and_reject(tools: Tools) -> None:
    begin_at_the_start(tools, "g")
    assert tools.share("jobs", 8, "--group", "g").lines == VALUES[:8]
    shown = ("--formatter-property", "print.delivery=true")
    released = [line.split("\t") for line in tools.share("jobs", 4, "--group", "g", "--release", *shown).lines]
    rejected = [line.split("\t") for line in tools.share("jobs", 4, "--group", "g", "--reject", *shown).lines]
    assert [value for _, value in released] == [value for _, value in rejected] == VALUES[8:12]
    for (first, _), (second, _) in zip(released, rejected, strict=True):
        assert int(second.removeprefix("Delivery:")) == int(first.removeprefix("Delivery:")) + 1
    assert tools.share("jobs", 8, "--group", "g").lines == VALUES[12:]


def test_kafka_share_groups_describes_resets_and_deletes(tools: Tools) -> None:
    begin_at_the_start(tools, "admin")
    tools.share("jobs", 12, "--group", "admin")
    group = ("--group", "admin")
    assert tools.run(SHARE_GROUPS, "--describe", *group).cells == [["admin", "jobs", "0", "12", "8"]]
    state = tools.run(SHARE_GROUPS, "--describe", *group, "--state").text
    assert "Empty" in state
    assert "no active members" in state
    assert ["admin", "Empty"] in tools.run(SHARE_GROUPS, "--list", "--state").cells
    assert ["admin", "Share", "share"] in tools.run(GROUPS, "--list").cells

    reset = ("--reset-offsets", *group, "--topic", "jobs", "--to-earliest")
    assert tools.run(SHARE_GROUPS, *reset, "--dry-run").cells == [["admin", "jobs", "0", "0"]]
    assert tools.run(SHARE_GROUPS, "--describe", *group).cells == [["admin", "jobs", "0", "12", "8"]]
    tools.run(SHARE_GROUPS, *reset, "--execute")
    assert tools.run(SHARE_GROUPS, "--describe", *group).cells == [["admin", "jobs", "0", "0", "20"]]

    assert ["jobs", "Successful"] in tools.run(SHARE_GROUPS, "--delete-offsets", *group, "--topic", "jobs").cells
    assert "no offset information" in tools.run(SHARE_GROUPS, "--describe", *group).text
    assert "was successful" in tools.run(SHARE_GROUPS, "--delete", *group).text
    assert "admin" not in tools.run(SHARE_GROUPS, "--list").out.split()


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_share_consumer_acknowledges_every_record_once(tools: Tools, mode: str) -> None:
    group = f"verified-{mode}"
    begin_at_the_start(tools, group)
    how = ["--group-id", group, "--max-messages", "20", "--acknowledgement-mode", mode]
    said = tools.run(VERIFIABLE_SHARE_CONSUMER, "--topic", "jobs", *how)
    events = [json.loads(line) for line in said.lines if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    assert sum(event["count"] for event in events if event["name"] == "offsets_acknowledged") == 20
    assert tools.run(SHARE_GROUPS, "--describe", "--group", group).cells == [[group, "jobs", "0", "20", "0"]]


def test_who_may_not_read_the_group_is_refused(tools: Tools, secured: Secured) -> None:
    secured.admin.acls("--add", "--deny-principal", "User:worker", "--operation", "Read", "--group", "closed")
    said = tools.run(SHARE_CONSUMER, "--topic", "jobs", "--group", "closed", "--timeout-ms", LIMIT_MS, may_fail=True)
    assert "GroupAuthorizationException" in said.text
