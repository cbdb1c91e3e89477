"""The requests of the quorum at a node that leads it alone: what it answers, and strangers that it refuses."""

from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from barnabas.core.errors import BarnabasError, PeerUnreachable, UnsupportedVersion
from barnabas.core.metadata.names import METADATA_TOPIC
from barnabas.core.raft.voters import Voter, VoterEndpoint
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.raft_driver.peers import WirePeers
from barnabas.runtime.raft_driver.wire_requests import METADATA_TOPIC_ID
from barnabas.services.broker import Broker
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.wire.apis import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    UPDATE_RAFT_VOTER,
    VOTE,
    Api,
)
from tests.unit.edge.kafka.calling import Caller, FakeConnection
from tests.unit.edge.kafka.support import NODE_ID, ask, config_of, run

Scenario = Callable[[Broker], Awaitable[None]]
STRANGER = UUID(int=99)


def about(**partition: Any) -> dict[str, Any]:
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]}


def vote(epoch: int, **fields: Any) -> dict[str, Any]:
    """A candidate whose log is longer than any."""
    partition = {"replica_id": 2, "replica_epoch": epoch, "last_offset": 10_000, "last_offset_epoch": epoch - 1}
    return about(**{**partition, **fields})


def snapshot(epoch: int, topic: str = METADATA_TOPIC, partition: int = 0) -> dict[str, Any]:
    asked = {"partition": partition, "current_leader_epoch": epoch, "snapshot_id": {"end_offset": 1, "epoch": 1}}
    return {"topics": [{"name": topic, "partitions": [asked]}]}


def only(answer: Any) -> Any:
    """The one partition of an answer that is none as a whole."""
    assert answer.error_code is ErrorCode.none
    return answer.topics[0].partitions[0]


async def ask_node(broker: Broker, api: Api, version: int, **values: Any) -> Any:
    """Ask as another node of the same quorum does."""
    assert broker.quorum is not None
    return await ask(broker, api, version, **{"cluster_id": broker.quorum.cluster_id, **values})


def epoch_of(broker: Broker) -> int:
    assert broker.quorum is not None
    return broker.quorum.epoch


@pytest.mark.parametrize("api", [VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT])
def test_a_node_of_another_cluster_or_of_none_is_refused_as_a_whole(api: Api) -> None:
    async def scenario(broker: Broker) -> None:
        for cluster_id in ("another", "", None):
            answer = await ask(broker, api, 1, cluster_id=cluster_id, topics=[])
            assert answer.error_code is ErrorCode.inconsistent_cluster_id
            assert answer.topics == ()

    run(scenario)


@pytest.mark.parametrize("api", [VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH])
def test_another_partition_is_an_invalid_request(api: Api) -> None:
    async def scenario(broker: Broker) -> None:
        for topics in ([], [{"topic_name": "other", "partitions": [{}]}], about(partition_index=1)["topics"]):
            answer = await ask_node(broker, api, 1, topics=topics)
            assert answer.error_code is ErrorCode.invalid_request

    run(scenario)


def test_a_leader_grants_no_vote_in_its_epoch_and_says_who_leads() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        answered = only(await ask_node(broker, VOTE, 2, voter_id=NODE_ID, **vote(epoch)))
        assert answered.error_code is ErrorCode.none
        assert (answered.vote_granted, answered.leader_id, answered.leader_epoch) == (False, NODE_ID, epoch)

    run(scenario)


def test_an_old_epoch_is_fenced_and_hears_of_the_new_one() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        for api, request in (
            (VOTE, vote(epoch - 1, last_offset_epoch=0)),
            (BEGIN_QUORUM_EPOCH, about(leader_id=2, leader_epoch=epoch - 1)),
            (END_QUORUM_EPOCH, about(leader_id=2, leader_epoch=epoch - 1)),
        ):
            answered = only(await ask_node(broker, api, 1, **request))
            assert answered.error_code is ErrorCode.fenced_leader_epoch
            assert (answered.leader_id, answered.leader_epoch) == (NODE_ID, epoch)

    run(scenario)


def test_a_vote_for_another_voter_is_refused_by_the_key_of_its_receiver() -> None:
    async def scenario(broker: Broker) -> None:
        answered = only(await ask_node(broker, VOTE, 2, voter_id=7, **vote(epoch_of(broker))))
        assert answered.error_code is ErrorCode.invalid_voter_key

    run(scenario)


def test_a_second_leader_of_an_epoch_cannot_be() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        for api in (BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH):
            for leader_id in (2, -1):
                answered = only(await ask_node(broker, api, 1, **about(leader_id=leader_id, leader_epoch=epoch)))
                assert answered.error_code is ErrorCode.invalid_request
        assert broker.metadata.is_active

    run(scenario)


def test_the_only_voter_takes_no_newer_epoch_from_anybody() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        for newer in (epoch + 1, epoch + 1000, 2**31 - 2, 2**31 - 1):
            for api, request in (
                (VOTE, vote(newer)),
                (BEGIN_QUORUM_EPOCH, about(leader_id=2, leader_epoch=newer)),
                (END_QUORUM_EPOCH, about(leader_id=2, leader_epoch=newer)),
            ):
                answered = only(await ask_node(broker, api, 1, **request))
                assert answered.error_code is ErrorCode.invalid_request
                assert (answered.leader_id, answered.leader_epoch) == (NODE_ID, epoch)
        assert broker.metadata.is_active

    run(scenario)


def test_snapshots_that_are_not_there_and_partitions_that_have_none_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        for request, expected in (
            (snapshot(epoch), ErrorCode.snapshot_not_found),
            (snapshot(epoch - 1), ErrorCode.fenced_leader_epoch),
            (snapshot(epoch + 1), ErrorCode.unknown_leader_epoch),
            (snapshot(epoch, topic="other"), ErrorCode.unknown_topic_or_partition),
            (snapshot(epoch, partition=3), ErrorCode.unknown_topic_or_partition),
        ):
            assert only(await ask_node(broker, FETCH_SNAPSHOT, 1, **request)).error_code is expected

    run(scenario)


# Fetch on a listener for controllers


def controllers() -> BrokerConfig:
    return config_of(
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", controller_listener_names="CONTROLLER"
    )


class ForControllers(FakeConnection):
    listener = "CONTROLLER"


def metadata_log(epoch: int, offset: int = 0, topic_id: UUID = METADATA_TOPIC_ID, **fields: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": 0,
        "replica_directory_id": STRANGER,
    }
    return {
        "max_wait": 0,
        "replica_state": {"replica_id": 7},
        "topics": [{"topic_id": topic_id, "partitions": [{**partition, **fields}]}],
    }


async def fetch(broker: Broker, **request: Any) -> Any:
    assert broker.quorum is not None
    values = {"cluster_id": broker.quorum.cluster_id, **request}
    return await Caller(broker, ForControllers()).request(FETCH, 18, **values).read()


def test_an_observer_fetches_the_metadata_log_and_is_seen() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        answer = await fetch(broker, **metadata_log(epoch))
        (topic,) = answer.responses
        (partition,) = topic.partitions
        assert topic.topic_id == METADATA_TOPIC_ID
        assert partition.error_code is ErrorCode.none
        assert partition.current_leader.leader_id == NODE_ID
        assert partition.current_leader.leader_epoch == epoch
        assert partition.high_watermark == broker.metadata.applied_offset
        assert partition.records

        described = await ask(
            broker, DESCRIBE_QUORUM, 2, topics=[{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
        )
        (observer,) = only(described).observers
        assert (observer.replica_id, observer.replica_directory_id, observer.log_end_offset) == (7, STRANGER, 0)
        assert observer.last_fetch_timestamp > 0
        assert observer.last_caught_up_timestamp == -1

    run(scenario, controllers())


def test_a_fetch_that_does_not_fit_is_refused_with_the_leader() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        for request, expected in (
            (metadata_log(epoch - 1), ErrorCode.fenced_leader_epoch),
            (metadata_log(epoch + 1), ErrorCode.unknown_leader_epoch),
            (metadata_log(epoch, offset=-1), ErrorCode.invalid_request),
            (metadata_log(epoch, last_fetched_epoch=epoch + 1), ErrorCode.invalid_request),
            ({**metadata_log(epoch), "replica_state": {"replica_id": NODE_ID}}, ErrorCode.invalid_request),
            ({**metadata_log(epoch), "max_wait": -1}, ErrorCode.invalid_request),
        ):
            (partition,) = (await fetch(broker, **request)).responses[0].partitions
            assert partition.error_code is expected
            assert partition.current_leader.leader_id == NODE_ID
            assert not partition.records

    run(scenario, controllers())


def test_a_log_that_differs_is_told_where() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        end_offset = broker.metadata.applied_offset
        answer = await fetch(broker, **metadata_log(epoch, end_offset + 5, last_fetched_epoch=epoch))
        (partition,) = answer.responses[0].partitions
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (epoch, end_offset)

    run(scenario, controllers())


def test_other_topics_and_other_clusters_get_no_fetch_there() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        other = await fetch(broker, **metadata_log(epoch, topic_id=UUID(int=5)))
        assert (other.error_code, other.responses) == (ErrorCode.invalid_request, ())
        nothing = await fetch(broker, max_wait=0, topics=[])
        assert nothing.error_code is ErrorCode.invalid_request
        for cluster_id in ("another", None):
            stranger = await fetch(broker, cluster_id=cluster_id, **metadata_log(epoch))
            assert (stranger.error_code, stranger.responses) == (ErrorCode.inconsistent_cluster_id, ())

    run(scenario, controllers())


# Voters


def voter(node_id: int = 2, directory_id: UUID | None = STRANGER, **fields: Any) -> dict[str, Any]:
    listeners = [{"name": "CONTROLLER", "host": "two", "port": 9093}]
    return {"voter_id": node_id, "voter_directory_id": directory_id, "listeners": listeners, **fields}


def test_changes_of_voters_that_cannot_be_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        for api, request, expected in (
            (ADD_RAFT_VOTER, voter(cluster_id="another"), ErrorCode.inconsistent_cluster_id),
            (ADD_RAFT_VOTER, voter(directory_id=None), ErrorCode.invalid_request),
            (ADD_RAFT_VOTER, voter(listeners=[]), ErrorCode.invalid_request),
            (ADD_RAFT_VOTER, voter(node_id=-1), ErrorCode.invalid_request),
            (ADD_RAFT_VOTER, voter(), ErrorCode.request_timed_out),  # it has fetched nothing yet
            (ADD_RAFT_VOTER, voter(node_id=NODE_ID), ErrorCode.duplicate_voter),
            (REMOVE_RAFT_VOTER, voter(cluster_id="another"), ErrorCode.inconsistent_cluster_id),
            (REMOVE_RAFT_VOTER, voter(directory_id=None), ErrorCode.invalid_request),
            (REMOVE_RAFT_VOTER, voter(), ErrorCode.voter_not_found),
        ):
            answer = await ask(broker, api, 0, **request)
            assert answer.error_code is expected
            assert answer.error_message

    run(scenario)


class FakePeers:
    """One other node, which is asked what it knows, and answers so."""

    def __init__(self, answer: dict[str, range] | BarnabasError) -> None:
        self.asked: list[Voter] = []
        self._answer = answer

    async def features_of(self, voter: Voter) -> dict[str, range]:
        self.asked.append(voter)
        if isinstance(self._answer, BarnabasError):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "expected", "why"),
    [
        (PeerUnreachable("connection refused"), ErrorCode.request_timed_out, "does not answer where it is to listen"),
        (UnsupportedVersion("only version 0"), ErrorCode.invalid_request, "does not say which features it knows"),
        ({}, ErrorCode.invalid_request, "does not know level 1 of kraft.version, it knows none"),
        ({"kraft.version": range(1)}, ErrorCode.invalid_request, "level 1 of kraft.version, it knows 0 to 0"),
        ({"kraft.version": range(2)}, ErrorCode.none, None),
    ],
    ids=["gone", "old", "featureless", "fixed voters", "able"],
)
def test_a_new_voter_is_asked_first_whether_it_knows_how_voters_are_written(
    answer: dict[str, range] | BarnabasError, expected: ErrorCode, why: str | None
) -> None:
    async def scenario(broker: Broker) -> None:
        assert broker.quorum is not None
        end = broker.quorum.describe().voters[0].log_end_offset
        await fetch(broker, **metadata_log(epoch_of(broker), end, last_fetched_epoch=epoch_of(broker)))
        peers = FakePeers(answer)
        broker.quorum.peers = cast("WirePeers", peers)

        answered = await ask(broker, ADD_RAFT_VOTER, 1, **voter(7), ack_when_committed=False)

        assert answered.error_code is expected
        assert why is None or why in answered.error_message
        assert [each.endpoints[0].host for each in peers.asked] == ["two"]
        assert broker.quorum.voters.node_ids == ((NODE_ID, 7) if why is None else (NODE_ID,))

    run(scenario, controllers())


def test_a_voter_that_cannot_be_updated_hears_who_leads() -> None:
    async def scenario(broker: Broker) -> None:
        epoch = epoch_of(broker)
        versions = {"min_supported_version": 0, "max_supported_version": 1}
        for request, expected in (
            (voter(current_leader_epoch=epoch, cluster_id="another"), ErrorCode.inconsistent_cluster_id),
            (voter(current_leader_epoch=epoch, cluster_id=None), ErrorCode.inconsistent_cluster_id),
            (voter(current_leader_epoch=epoch - 1), ErrorCode.fenced_leader_epoch),
            (voter(current_leader_epoch=epoch + 1), ErrorCode.unknown_leader_epoch),
            (voter(current_leader_epoch=epoch, directory_id=None), ErrorCode.invalid_request),
            (voter(current_leader_epoch=epoch), ErrorCode.voter_not_found),
        ):
            answer = await ask_node(broker, UPDATE_RAFT_VOTER, 0, k_raft_version_feature=versions, **request)
            assert answer.error_code is expected
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (NODE_ID, epoch)

    run(scenario)


def test_a_fixed_list_of_voters_becomes_dynamic_by_its_feature_and_stays_so() -> None:
    async def scenario(broker: Broker) -> None:
        assert broker.quorum is not None
        assert broker.quorum.kraft_version == 0
        for level, expected, found in ((0, ErrorCode.none, 0), (1, ErrorCode.none, 1), (1, ErrorCode.none, 1)):
            answer = await update(broker, level, upgrade_type=1)
            assert (answer.error_code, broker.quorum.kraft_version) == (expected, found)
        answer = await update(broker, 0, upgrade_type=2)
        assert answer.error_code is ErrorCode.invalid_update_version
        (described,) = broker.quorum.voters.voters
        assert described.key == broker.quorum.replica

    async def update(broker: Broker, level: int, *, upgrade_type: int) -> Any:
        wanted = {"feature": "kraft.version", "max_version_level": level, "upgrade_type": upgrade_type}
        return await ask(broker, UPDATE_FEATURES, 2, feature_updates=[wanted])

    run(scenario, config_of(controller_quorum_voters=f"{NODE_ID}@127.0.0.1:9093"))


def test_a_leader_is_found_where_the_answers_say() -> None:
    class Silent:
        """Nobody is moved anywhere."""

    async def scenario(broker: Broker) -> None:
        assert broker.quorum is not None
        peers: Any = Silent()
        broker.quorum.peers = WirePeers(
            peers, node_id=NODE_ID, listener="C", endpoints=[VoterEndpoint("C", "me", 9093)]
        )
        answer = await ask_node(broker, VOTE, 2, **vote(epoch_of(broker)))
        (found,) = answer.node_endpoints
        assert (found.node_id, found.host, found.port) == (NODE_ID, "me", 9093)

    run(scenario)


def test_nobody_moves_a_leader_by_a_request_that_is_refused() -> None:
    class Moved:
        """Notes who is said to be elsewhere."""

        def __init__(self) -> None:
            self.moves: list[tuple[int, str, int]] = []

        def move(self, node_id: int, host: str, port: int) -> None:
            self.moves.append((node_id, host, port))

    async def scenario(broker: Broker) -> None:
        assert broker.quorum is not None
        peers: Any = Moved()
        broker.quorum.peers = WirePeers(peers, node_id=7, listener="C")
        for epoch in (0, epoch_of(broker) + 1):
            request = about(leader_id=NODE_ID, leader_epoch=epoch)
            endpoints = [{"name": "C", "host": "stranger", "port": 1}]
            answered = only(await ask_node(broker, BEGIN_QUORUM_EPOCH, 1, **request, leader_endpoints=endpoints))
            assert answered.error_code is not ErrorCode.none
        assert peers.moves == []

    run(scenario)


def test_a_node_that_does_not_lead_describes_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        assert isinstance(broker.metadata, MetadataLog)
        await broker.metadata.driver.close()
        request = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
        answered = only(await ask(broker, DESCRIBE_QUORUM, 2, **request))
        assert answered.error_code is ErrorCode.not_leader_or_follower
        for api in (ADD_RAFT_VOTER, REMOVE_RAFT_VOTER):
            assert (await ask(broker, api, 0, **voter())).error_code is ErrorCode.not_leader_or_follower

    run(scenario)
