"""A node that does not vote, in an epoch that is ahead of the quorum's: it reads on, and acknowledges nothing.

Epochs never go back, and anybody can ask a node for its vote in one that is ahead. A voter gets out of it by the next
election; a node that does not vote has none, and the leader refuses what it fetches in its own epoch. So it fetches in
the leader's, as somebody who only looks. Its own epoch, and the vote that it may have given there, stay: it may be a
voter by a set that it has not seen yet, and a record that it acknowledged below its vote's epoch could be lost.

What it reads is sound. A leader calls nothing committed that is not, deposed or not. And it has all that is committed
up to its epoch, so what it has truncated here is nothing of that, as long as this log has no record of a newer one.
"""

from barnabas.core.errors import UnknownLeaderEpoch
from barnabas.core.raft import following
from barnabas.core.raft.messages import FetchRequest, FetchResponse, Request, Response
from barnabas.core.raft.state import LookingOn, RaftState
from barnabas.core.raft.voters import ReplicaKey

ONLOOKER = ReplicaKey(-1)
"""Whom a leader does not count, nor remember."""


def begin_or_pause(state: RaftState, peer: int, response: Response, *, now_ms: int) -> None:
    """An answer is of an older epoch: read the log of the leader that it names; else ask this peer again later."""
    leader_id, epoch = response.leader_id, response.epoch
    is_behind = isinstance(response, FetchResponse) and response.refusal is UnknownLeaderEpoch and epoch < state.epoch
    is_led = leader_id is not None and leader_id != state.node_id
    if state.is_voter or not is_behind or not is_led or epoch < state.log.last_epoch:
        state.requests.pause(peer, now_ms=now_ms)
        return
    assert leader_id is not None
    if state.ahead_in != state.epoch:
        state.ahead_in = state.epoch
        state.note(f"nobody leads epoch {state.epoch}: reading the log of node {leader_id}, which leads epoch {epoch}")
    state.looking_on = LookingOn(leader_id, epoch)


def send_fetch(state: RaftState, *, now_ms: int) -> bool:
    """Fetch as an onlooker, if this node is one; whether it is."""
    look = state.looking_on
    if look is None or state.is_voter or state.requests.is_paused(look.leader_id):
        state.looking_on = None
        return False
    if state.requests.is_ready(look.leader_id):
        state.send(look.leader_id, following.fetch_request(state, as_onlooker=look), now_ms=now_ms)
    return True


def take(state: RaftState, peer: int, request: Request, response: Response, *, now_ms: int) -> bool:
    """Take what a leader has answered to an onlooker; whether it was one that asked.

    If it is the leader no more, who leads is looked for again. A snapshot is not fetched in this way.
    """
    if not isinstance(request, FetchRequest) or request.replica != ONLOOKER or not isinstance(response, FetchResponse):
        return False
    look, log = state.looking_on, state.log
    place = (request.epoch, request.fetch_offset, request.last_epoch)
    is_current = look is not None and place == (look.epoch, log.end_offset, log.last_epoch)
    is_led = look is not None and (response.leader_id, response.epoch) == look and response.refusal is None
    if not is_current or not is_led or response.snapshot is not None:
        state.looking_on = None
        state.requests.pause(peer, now_ms=now_ms)
    elif response.diverging is not None:
        following.truncate_diverging(state, peer, response.diverging, now_ms=now_ms)
    else:
        following.append(state, peer, response, now_ms=now_ms)
    return True
