"""Names, client ids and replica ids that nobody should have."""

from typing import Any

import pytest

from barnabas.wire.apis import CREATE_TOPICS, FETCH, METADATA
from tests.system.bad_input.serving import Server, answered_or_closed
from tests.system.running import Client, check_round_trip, produce
from tests.unit.edge.kafka.calling import frame_of


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 250, "", "../../x", "a\x00b", "<script>", "ä"])
def test_names_that_cannot_be_are_refused_and_make_no_files(server: Server, name: str) -> None:
    before = sorted(str(path) for path in server.directory.rglob("*") if "honest" not in str(path))
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    with Client(server.port) as client:
        created = client.ask(CREATE_TOPICS, 7, topics=[topic], timeout=1000)
        assert created.topics[0].error_code.value == 17
        asked = client.ask(METADATA, 12, topics=[{"name": name, "topic_id": None}], allow_auto_topic_creation=True)
        assert asked.topics[0].error_code.value == 17
        assert produce(client, name, None).error_code.value == 3
    assert sorted(str(path) for path in server.directory.rglob("*") if "honest" not in str(path)) == before


@pytest.mark.parametrize(
    "client_id",
    [b"<script>alert(1)</script>", b"\n2026-01-01 ERROR barnabas forged", b"%s%s%n", b"\x1b[31m", b"\xff\xfe"],
)
def test_markup_in_client_ids_goes_nowhere(server: Server, client_id: bytes) -> None:
    answered_or_closed(server, frame_of(METADATA, 1, b"\xff\xff\xff\xff", client_id))
    answered_or_closed(server, frame_of(METADATA, 1, b"\xff\xff", client_id))  # and when it is logged
    assert "forged" not in server.log
    server.check()


@pytest.mark.parametrize(("version", "values"), [(11, {"replica_id": 1}), (18, {"replica_state": {"replica_id": 1}})])
def test_a_client_that_says_it_is_a_replica_gets_no_records(server: Server, version: int, values: Any) -> None:
    check_round_trip(server.port)
    each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    with Client(server.port) as client:
        named = {"topic": "honest"}
        if version > 12:
            (topic,) = client.ask(METADATA, 12, topics=[{"name": "honest", "topic_id": None}]).topics
            named = {"topic_id": topic.topic_id}
        answer = client.ask(FETCH, version, max_wait=0, topics=[{**named, "partitions": [each]}], **values)
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code.value, partition.records) == (6, b"")
