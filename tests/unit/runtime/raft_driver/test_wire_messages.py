"""The messages of the quorum through the bytes of every version: what one node writes, another reads."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from barnabas.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from barnabas.core.raft.log_view import EpochEnd, SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Refusal,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from barnabas.core.raft.voters import ReplicaKey, VoterEndpoint
from barnabas.runtime.raft_driver import wire_answers, wire_requests
from barnabas.runtime.raft_driver.ports import Answer
from barnabas.runtime.raft_driver.wire_answers import LeaderAt, RefusedByPeer
from barnabas.runtime.raft_driver.wire_requests import AskedNode
from barnabas.wire.apis import FETCH as FETCH_API
from barnabas.wire.apis import Api
from barnabas.wire.frame import RequestHeader
from barnabas.wire.reading import read_struct
from barnabas.wire.reading_values import Body
from barnabas.wire.requests import read_request, write_request
from barnabas.wire.responses import write_response
from barnabas.wire.schemas import response_schema
from tests.support.served import versions_of

CLUSTER = "c"
ME, OTHER = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
HERE = AskedNode(CLUSTER, ME)
LISTENS = (VoterEndpoint("CONTROLLER", "two", 9093), VoterEndpoint("SECOND", "two", 9094))

VOTE = VoteRequest(
    cluster_id=CLUSTER, epoch=5, candidate=OTHER, voter=ME, last_epoch=4, end_offset=70, is_pre_vote=True
)
BEGIN = BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=5, leader_id=2, voter=ME)
END = EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=5, leader_id=2, successors=(ME, ReplicaKey(3, UUID(int=33))))
FETCH = FetchRequest(
    cluster_id=CLUSTER, epoch=5, replica=OTHER, fetch_offset=70, last_epoch=4, high_watermark=69, max_wait_ms=500
)
SNAPSHOT = FetchSnapshotRequest(cluster_id=CLUSTER, epoch=5, replica=OTHER, snapshot=SnapshotId(60, 4), position=1024)
READERS: dict[type[Request], Callable[[Any, AskedNode], Request]] = {
    VoteRequest: wire_requests.read_vote,
    BeginQuorumEpochRequest: wire_requests.read_begin_epoch,
    EndQuorumEpochRequest: wire_requests.read_end_epoch,
    FetchRequest: wire_requests.read_fetch,
    FetchSnapshotRequest: wire_requests.read_fetch_snapshot,
}
LOOK = msgspec.structs.replace(FETCH, replica=ReplicaKey(-1))
NEWEST = [pytest.param(each, id=type(each).__name__) for each in (VOTE, BEGIN, END, FETCH, SNAPSHOT)]
NEWEST.append(pytest.param(LOOK, id="FetchRequest of an onlooker"))


def sent(request: Request, version: int | None = None) -> Any:
    """A request as its receiver reads it; kio must read all of it, too."""
    outgoing = wire_requests.write(request, endpoints=LISTENS)
    version = versions_of(outgoing.api)[-1] if version is None else version
    return through(outgoing.api, version, outgoing.values)


def through(api: Api, version: int, values: Any) -> Any:
    data = bytes(write_request(api.key, version, values))
    assert entity_reader(load_request_schema(api.key, version))(data, 0)[1] == len(data)
    return read_request(RequestHeader(api, version, 1, None, 0), data, len(data))


def received(request: Request, version: int | None = None) -> Request:
    return READERS[type(request)](sent(request, version), HERE)


@pytest.mark.parametrize("request_", NEWEST)
def test_a_request_of_the_newest_version_says_all(request_: Request) -> None:
    assert received(request_) == request_


def test_the_time_of_the_leader_travels_with_fetches_and_their_answers() -> None:
    fetch = msgspec.structs.replace(FETCH, seen_leader_ms=12_345)
    outgoing = wire_requests.write(fetch)
    version = versions_of(FETCH_API)[-1]
    data = bytes(write_request(FETCH_API.key, version, outgoing.values))
    message = read_request(RequestHeader(FETCH_API, version, 1, None, 0), data, len(data))

    assert wire_requests.read_fetch(message, HERE) == fetch
    response = FetchResponse(epoch=5, leader_id=3, high_watermark=60, leader_ms=12_999)
    data = bytes(write_response(FETCH_API.key, version, wire_answers.write(Answer(response), LEADER)))
    read, _ = read_struct(response_schema(FETCH_API.key, version), Body(data, max_elements=100))
    assert wire_answers.read(fetch, read).answer.response == response


@pytest.mark.parametrize("request_", NEWEST)
def test_a_request_can_be_written_in_every_version_that_it_is_sent_in(request_: Request) -> None:
    outgoing = wire_requests.write(request_)
    for version in versions_of(outgoing.api):
        if version >= outgoing.min_version:
            assert received(request_, version).epoch == request_.epoch


def test_an_old_vote_is_for_whoever_gets_it_and_knows_no_directories() -> None:
    vote = received(
        VoteRequest(
            cluster_id=CLUSTER, epoch=5, candidate=OTHER, voter=ME, last_epoch=4, end_offset=70, is_pre_vote=False
        ),
        version=0,
    )

    assert isinstance(vote, VoteRequest)
    assert (vote.candidate, vote.voter) == (ReplicaKey(2), ME)
    assert not vote.is_pre_vote


def test_a_pre_vote_is_never_sent_in_a_version_that_takes_it_for_a_vote() -> None:
    assert wire_requests.write(VOTE).min_version == 2


def test_the_successors_of_an_old_version_are_ids_alone() -> None:
    end = received(END, version=0)

    assert isinstance(end, EndQuorumEpochRequest)
    assert end.successors == (ReplicaKey(1), ReplicaKey(3))


def test_an_old_fetch_knows_neither_directory_nor_high_watermark() -> None:
    fetch = received(FETCH, version=12)

    assert isinstance(fetch, FetchRequest)
    assert (fetch.replica, fetch.fetch_offset, fetch.last_epoch) == (ReplicaKey(2), 70, 4)
    assert fetch.high_watermark == 2**63 - 1


def test_a_leader_says_where_it_listens() -> None:
    for request in (BEGIN, END):
        assert wire_requests.read_listeners(sent(request).leader_endpoints) == LISTENS


@pytest.mark.parametrize("request_", NEWEST)
def test_another_cluster_is_refused_before_anything_else(request_: Request) -> None:
    with pytest.raises(InconsistentClusterId):
        READERS[type(request_)](sent(request_), AskedNode("another", ME))


@pytest.mark.parametrize("request_", NEWEST)
def test_a_request_without_a_cluster_is_refused(request_: Request) -> None:
    outgoing = wire_requests.write(request_)
    message = through(outgoing.api, versions_of(outgoing.api)[-1], {**outgoing.values, "cluster_id": None})

    with pytest.raises(InconsistentClusterId, match="names no cluster"):
        READERS[type(request_)](message, HERE)


@pytest.mark.parametrize("request_", NEWEST)
def test_other_partitions_than_that_of_the_metadata_log_are_refused(request_: Request) -> None:
    outgoing = wire_requests.write(request_)
    (topic,) = outgoing.values["topics"]
    (partition,) = topic["partitions"]
    elsewhere = {"topic_name": "other", "name": "other", "topic_id": UUID(int=7)}
    for topics in (
        [],
        [topic, topic],
        [{**topic, "partitions": []}],
        [{**topic, "partitions": [partition, partition]}],
        [{**topic, "partitions": [{**partition, "partition_index": 1, "partition": 1}]}],
        [{**topic, **elsewhere}],
    ):
        message = through(outgoing.api, versions_of(outgoing.api)[-1], {**outgoing.values, "topics": topics})
        with pytest.raises((InvalidRequest, UnknownTopicOrPartition)):
            READERS[type(request_)](message, HERE)


# Answers

LEADER = LeaderAt(3, "three", 9093)


def answered(request: Request, answer: Answer, version: int | None = None, leader: LeaderAt | None = LEADER) -> Any:
    """An answer as whoever asked reads it."""
    return back(request, wire_answers.write(answer, leader, log_start_offset=3), version)


def back(request: Request, values: Any, version: int | None = None) -> Any:
    api = wire_requests.write(request).api
    version = versions_of(api)[-1] if version is None else version
    data = bytes(write_response(api.key, version, values))
    assert entity_reader(load_response_schema(api.key, version))(data, 0)[1] == len(data)
    return wire_answers.read(request, read_struct(response_schema(api.key, version), Body(data, max_elements=100))[0])


ANSWERS: list[tuple[Request, Response, bytes]] = [
    (VOTE, VoteResponse(epoch=5, leader_id=3, is_granted=True), b""),
    (VOTE, VoteResponse(epoch=5), b""),
    (VOTE, VoteResponse(epoch=6, leader_id=3, refusal=InvalidVoterKey), b""),
    (BEGIN, BeginQuorumEpochResponse(epoch=5, leader_id=3), b""),
    (BEGIN, BeginQuorumEpochResponse(epoch=6, leader_id=3, refusal=FencedLeaderEpoch), b""),
    (END, EndQuorumEpochResponse(epoch=5, leader_id=3), b""),
    (END, EndQuorumEpochResponse(epoch=5, leader_id=3, refusal=InvalidRequest), b""),
    (FETCH, FetchResponse(epoch=5, leader_id=3, high_watermark=60), b"records"),
    (FETCH, FetchResponse(epoch=5, leader_id=3, high_watermark=60, diverging=EpochEnd(3, 50)), b""),
    (FETCH, FetchResponse(epoch=5, leader_id=3, high_watermark=60, snapshot=SnapshotId(60, 4)), b""),
    (FETCH, FetchResponse(epoch=4, refusal=UnknownLeaderEpoch), b""),
    (FETCH, FetchResponse(epoch=5, leader_id=3, refusal=NotLeaderOrFollower), b""),
    (
        SNAPSHOT,
        FetchSnapshotResponse(epoch=5, leader_id=3, snapshot=SnapshotId(60, 4), position=1024, size_bytes=4096),
        b"piece",
    ),
]


@pytest.mark.parametrize(("request_", "response", "data"), ANSWERS)
def test_an_answer_says_all_in_the_newest_version(request_: Request, response: Response, data: bytes) -> None:
    answer, leader = answered(request_, Answer(response, data))

    assert answer.response == response
    assert bytes(answer.data) == data
    assert leader == (LEADER if response.leader_id == LEADER.node_id else None)


@pytest.mark.parametrize(("request_", "response", "data"), ANSWERS)
def test_an_answer_can_be_read_in_every_version(request_: Request, response: Response, data: bytes) -> None:
    outgoing = wire_requests.write(request_)
    for version in versions_of(outgoing.api):
        if version >= outgoing.min_version:
            answer, _ = answered(request_, Answer(response, data), version)
            assert answer.response == response


@pytest.mark.parametrize("refusal", [SnapshotNotFound, PositionOutOfRange, NotLeaderOrFollower])
def test_a_piece_of_a_snapshot_is_refused_with_the_leader(refusal: Refusal) -> None:
    refused = FetchSnapshotResponse(epoch=5, leader_id=3, refusal=refusal, snapshot=SnapshotId(60, 4), size_bytes=9)

    answer, leader = answered(SNAPSHOT, Answer(refused))

    assert (answer.response.refusal, answer.response.leader_id, leader) == (refusal, 3, LEADER)


@pytest.mark.parametrize("request_", NEWEST)
def test_another_cluster_is_what_raft_hears_of_it(request_: Request) -> None:
    answer, leader = back(request_, {"error_code": InconsistentClusterId.kafka_code})

    assert answer.response.refusal is InconsistentClusterId
    assert leader is None


@pytest.mark.parametrize("request_", NEWEST)
def test_an_answer_that_raft_cannot_use_is_none(request_: Request) -> None:
    unusable: list[dict[str, Any]] = [{"error_code": InvalidRequest.kafka_code}, {"topics": [], "responses": []}]
    for values in unusable:
        with pytest.raises(RefusedByPeer):
            back(request_, values)


def test_an_error_that_has_nothing_to_do_with_the_quorum_is_no_answer() -> None:
    values = dict(wire_answers.write(Answer(FetchResponse(epoch=5))))
    values["responses"][0]["partitions"][0]["error_code"] = 56  # KAFKA_STORAGE_ERROR

    with pytest.raises(RefusedByPeer):
        back(FETCH, values)
