"""Peers of another cluster: said once each; and a node that meets nobody else knows that it is in the wrong place."""

from random import Random
from uuid import UUID

from barnabas.core.errors import InconsistentClusterId
from barnabas.core.raft.messages import FetchResponse, VoteRequest
from barnabas.core.raft.node import RaftNode, Restored
from barnabas.core.raft.output import OutgoingRequest, Output, Stranger
from barnabas.core.raft.state import RaftConfig
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet

KEYS = [ReplicaKey(node_id, UUID(int=node_id)) for node_id in (1, 2, 3)]
ADDRESSES = (-2, -3)


class Asking:
    """A node, and whoever answers what it asks: strangers, unless they are kin."""

    def __init__(self, *, voters: VoterSet = NO_VOTERS, addresses: tuple[int, ...] = ADDRESSES) -> None:
        config = RaftConfig(bootstrap_ids=addresses)
        self.node = RaftNode(KEYS[0], "castle", Restored(), dice=Random(1), static_voters=voters, config=config)
        self.now_ms = 0
        self.found: list[Stranger] = []
        self.under_way: list[OutgoingRequest] = []
        self._take(self.node.start(0))

    def _take(self, output: Output) -> None:
        self.found += output.strangers
        self.under_way += output.requests

    def go_on(self, *, silent: tuple[int, ...] = (), kin: tuple[int, ...] = (), steps: int = 200) -> None:
        """Answer for some steps."""
        for _ in range(steps):
            self.now_ms += 50
            if not self.under_way:
                self._take(self.node.tick(self.now_ms))
                continue
            peer, request_id, request = self.under_way.pop(0)
            if peer in silent or isinstance(request, VoteRequest):
                self._take(self.node.request_failed(peer, request_id, now_ms=self.now_ms))
                continue
            answer = FetchResponse(epoch=0, refusal=None if peer in kin else InconsistentClusterId)
            self._take(self.node.receive_response(peer, request_id, answer, now_ms=self.now_ms))


def test_a_node_that_only_strangers_answer_is_in_the_wrong_place() -> None:
    asking = Asking()
    asking.go_on()
    assert {each.peer for each in asking.found} == {-2, -3}
    assert [each.is_everybody for each in asking.found[:2]] == [False, True]


def test_a_stray_is_said_once_and_nothing_else_while_others_are_silent() -> None:
    asking = Asking()
    asking.go_on(silent=(-3,))
    assert asking.found == [Stranger(-2, is_everybody=False)]


def test_a_stray_is_no_reason_where_one_of_the_own_cluster_answers() -> None:
    asking = Asking()
    asking.go_on(kin=(-3,))
    asking.go_on()
    assert not any(each.is_everybody for each in asking.found)


def test_voters_that_are_silent_may_be_of_the_own_cluster() -> None:
    asking = Asking(voters=VoterSet.of([Voter(key) for key in KEYS]))
    asking.go_on(silent=(2, 3))
    assert {each.peer for each in asking.found} == {-2, -3}
    assert not any(each.is_everybody for each in asking.found)


def test_a_node_that_one_of_its_cluster_has_asked_is_in_the_right_place() -> None:
    asking = Asking()
    vote = VoteRequest(
        cluster_id="castle", epoch=0, candidate=KEYS[1], voter=KEYS[0], last_epoch=0, end_offset=0, is_pre_vote=True
    )
    asking.node.receive(vote, "t", now_ms=0)
    asking.go_on()
    assert not any(each.is_everybody for each in asking.found)
