"""The driver of Raft: one task that owns a node's part in the quorum, its metadata log and its quorum-state.

Everything that happens (a request, an answer, a sync that ended, time) waits in one line. Each is one step of
`core.raft`, and what the step asks for is done before the next, in the order that `core.raft.output` gives: the state
is durable, then the log is changed, then others hear of it, then what is committed is applied. Syncs of the log,
requests to others and reads for them go on beside the line, and their outcomes join it.

A disk without room holds the line up until there is some; proposals are refused meanwhile. A disk that fails ends it:
the node takes no more part, and the others go on without it.

Must not know: what the records say (`LogFollower`), how others are reached (`QuorumPeers`).
"""

from barnabas.runtime.raft_driver.driver import RaftDriver
from barnabas.runtime.raft_driver.ports import Answer, Identity, LogFollower, NoPeers, Proposal, QuorumPeers

__all__ = ["Answer", "Identity", "LogFollower", "NoPeers", "Proposal", "QuorumPeers", "RaftDriver"]
