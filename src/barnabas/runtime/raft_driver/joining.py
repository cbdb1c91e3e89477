"""The task by which a node asks the leader for its place among the voters, again and again until it has it."""

import asyncio
from typing import Any, Final

from barnabas.core.errors import BarnabasError, DuplicateVoter, RequestTimedOut, VoterNotFound
from barnabas.core.raft.joining import AddVoter, RemoveVoter, VoterChange
from barnabas.core.raft.node import RaftNode
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.raft_driver.peers import WirePeers
from barnabas.runtime.raft_driver.wire_requests import listeners
from barnabas.wire.apis import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER, Api
from barnabas.wire.writing import Values

log = get_logger("barnabas.quorum")

_PARTS: Final = 4  # of the fetch timeout, between two attempts
# Another change is under way, or the answer to this one was lost: the set of voters will tell.
_SETTLED_BY_THE_LOG: Final = (0, RequestTimedOut.kafka_code, DuplicateVoter.kafka_code, VoterNotFound.kafka_code)


async def keep_place(node: RaftNode, peers: WirePeers, *, joins: bool) -> None:
    """Have this node listed among the voters where it listens; with `joins` also if it is none of them yet."""
    while True:
        await asyncio.sleep(node.config.fetch_timeout_ms / 1000 / _PARTS)
        change, leader_id = node.due_change(joins=joins), node.quorum.leader_id
        if change is None or leader_id is None:
            continue
        api, values = _write(change, node)
        try:
            answer = await peers.call(leader_id, api, values)
            code, why = int(answer.error_code), getattr(answer, "error_message", None)
        except BarnabasError as error:
            log.info("node %d does not answer %s: %s", leader_id, api.name, error)
            continue
        if code == 0:
            log.info("the leader, node %d, has carried out %s for this node", leader_id, api.name)
        elif code not in _SETTLED_BY_THE_LOG:
            log.warning("node %d refuses %s of this node with the error %d: %s", leader_id, api.name, code, why)
        else:
            log.info("node %d does not carry out %s for this node yet: %s", leader_id, api.name, why)


def _write(change: VoterChange, node: RaftNode) -> tuple[Api, Values]:
    key = change.key if isinstance(change, RemoveVoter) else change.voter.key
    values: dict[str, Any] = {
        "cluster_id": node.cluster_id,
        "voter_id": key.node_id,
        "voter_directory_id": key.directory_id,
    }
    if isinstance(change, RemoveVoter):
        return REMOVE_RAFT_VOTER, values
    values["listeners"] = listeners(change.voter.endpoints)
    if isinstance(change, AddVoter):
        # Not awaited: it may be this node whose fetches commit the change, and the log says when that is so.
        return ADD_RAFT_VOTER, {**values, "timeout": node.config.request_timeout_ms, "ack_when_committed": False}
    versions = {"min_supported_version": 0, "max_supported_version": 1}
    return UPDATE_RAFT_VOTER, {
        **values,
        "current_leader_epoch": node.quorum.epoch,
        "k_raft_version_feature": versions,
    }
