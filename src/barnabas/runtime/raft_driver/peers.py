"""The other nodes of the quorum over the wire: how they are asked, and where they are.

Votes, fetches and snapshots have a connection each, so that a vote never waits behind a long fetch. An address is known
from the voters that rule, or from a message that names the leader; whichever was heard of last counts. Bootstrap
servers, of which only the address is known, have negative ids.
"""

from collections.abc import Sequence
from typing import Any, Final

from barnabas.core.errors import BarnabasError, ClusterAuthorizationFailed
from barnabas.core.raft.messages import FetchRequest, FetchSnapshotRequest, Request
from barnabas.core.raft.state import FIRST_BOOTSTRAP_ID
from barnabas.core.raft.voters import Voter, VoterEndpoint, VoterSet
from barnabas.runtime.peers import Peer, Peers
from barnabas.runtime.peers.channel import Address
from barnabas.runtime.raft_driver import wire_answers, wire_requests
from barnabas.runtime.raft_driver.ports import Answer, Identity
from barnabas.runtime.raft_driver.strangers import tell_not_let_in
from barnabas.runtime.raft_driver.wire_answers import LeaderAt
from barnabas.wire.apis import API_VERSIONS, DESCRIBE_CLUSTER, Api
from barnabas.wire.writing import Values

VOTES: Final = "quorum votes"
FETCHES: Final = "quorum fetches"
SNAPSHOTS: Final = "quorum snapshots"
CHANGES: Final = "quorum changes"
_FEATURES_FROM: Final = 3  # of ApiVersions
_CONTROLLERS: Final = 2  # what DescribeCluster is asked for


class WirePeers:
    """`QuorumPeers` over `Peers`. `listener` is the name of the listener that controllers use among themselves."""

    def __init__(
        self,
        peers: Peers,
        *,
        node_id: int,
        bootstrap: Sequence[Address] = (),
        listener: str = "",
        endpoints: Sequence[VoterEndpoint] = (),
        timeout_s: float = 2.0,
    ) -> None:
        self._peers = peers
        self._node_id = node_id
        self._bootstrap = tuple(bootstrap)
        self._listener = listener
        self._timeout_s = timeout_s
        self.endpoints = tuple(endpoints)
        """Where this node itself listens for controllers."""
        self._voters_at: dict[int, VoterEndpoint] = {}
        self._known: dict[int, Address] = {}
        self._refusing: set[int] = set()  # nodes that do not know this one as a node

    async def ask(self, to: int, request: Request) -> Answer:
        """The answer of a node; see `QuorumPeers`."""
        outgoing = wire_requests.write(request, endpoints=self.endpoints)
        message = await self._peer(to).call(
            outgoing.api.key,
            outgoing.values,
            timeout_s=self._timeout_s,
            purpose=_purpose(request),
            min_version=outgoing.min_version,
        )
        self._note_right(to, message.error_code)
        answer, leader = wire_answers.read(request, message)
        if leader is not None:
            self.note_leader(leader)
        return answer

    def _note_right(self, to: int, code: int) -> None:
        """Say once that a node refuses this one as one of its cluster: nothing else would tell why nobody leads."""
        if code != ClusterAuthorizationFailed.kafka_code:
            self._refusing.discard(to)
        elif to not in self._refusing:
            self._refusing.add(to)
            tell_not_let_in(self._address_of(to))

    async def call(self, to: int, api: Api, values: Values) -> Any:
        """Ask a node for what is not of Raft itself."""
        return await self._peer(to).call(api.key, values, timeout_s=self._timeout_s, purpose=CHANGES)

    async def features_of(self, voter: Voter) -> dict[str, range]:
        """The levels of each feature that a node knows, which says so where it is to listen for controllers."""
        endpoint = choose_endpoint(voter.endpoints, self._listener)
        assert endpoint is not None, "it says where it listens"
        peer = self._peers.once(endpoint.host, endpoint.port)
        software = {"client_software_name": "barnabas", "client_software_version": "1"}
        try:
            answer = await peer.call(
                API_VERSIONS.key,
                software,
                timeout_s=self._timeout_s,
                purpose=CHANGES,
                min_version=_FEATURES_FROM,
            )
        finally:
            peer.close()
        return {str(each.name): range(each.min_version, each.max_version + 1) for each in answer.supported_features}

    async def identify(self, to: int) -> Identity:
        """Who a node is, as it says itself."""
        address = self._address_of(to)
        try:
            answer = await self.call(to, DESCRIBE_CLUSTER, {"endpoint_type": _CONTROLLERS})
        except BarnabasError:
            return Identity(address)
        return Identity(address, str(answer.cluster_id) or None)

    def _address_of(self, to: int) -> str:
        found = self._peer(to).address
        where = "an unknown address" if found is None else f"{found[0]}:{found[1]}"
        return where if to <= FIRST_BOOTSTRAP_ID else f"{where} (node {to})"

    def _peer(self, to: int) -> Peer:
        if to > FIRST_BOOTSTRAP_ID:
            return self._peers.to(to)
        return self._peers.at(*self._bootstrap[FIRST_BOOTSTRAP_ID - to])

    # Addresses

    def note_voters(self, voters: VoterSet) -> None:
        """These are the voters that rule: they are where the set says, as far as that is news."""
        for voter in voters.voters:
            node_id, endpoint = voter.key.node_id, choose_endpoint(voter.endpoints, self._listener)
            if endpoint is not None and endpoint != self._voters_at.get(node_id):
                self._voters_at[node_id] = endpoint
                self._move(node_id, endpoint.host, endpoint.port)

    def note_leader(self, leader: LeaderAt) -> None:
        """A message says where the leader is."""
        if leader.host and leader.port > 0:
            self._move(leader.node_id, leader.host, leader.port)

    def note_endpoints(self, node_id: int, endpoints: Sequence[VoterEndpoint]) -> None:
        """A node says itself where it is."""
        endpoint = choose_endpoint(endpoints, self._listener)
        if endpoint is not None:
            self.note_leader(LeaderAt(node_id, endpoint.host, endpoint.port))

    def leader_at(self, leader_id: int | None) -> LeaderAt | None:
        """Where to find the leader, for those who ask."""
        if leader_id is None:
            return None
        if leader_id == self._node_id:
            endpoint = choose_endpoint(self.endpoints, self._listener)
            return None if endpoint is None else LeaderAt(leader_id, endpoint.host, endpoint.port)
        known = self._known.get(leader_id)
        return None if known is None else LeaderAt(leader_id, *known)

    def _move(self, node_id: int, host: str, port: int) -> None:
        if node_id != self._node_id and self._known.get(node_id) != (host, port):
            self._known[node_id] = (host, port)
            self._peers.move(node_id, host, port)


def choose_endpoint(endpoints: Sequence[VoterEndpoint], listener: str) -> VoterEndpoint | None:
    """The endpoint of a listener's name, or the first."""
    for endpoint in endpoints:
        if endpoint.listener.upper() == listener.upper():
            return endpoint
    return endpoints[0] if endpoints else None


def _purpose(request: Request) -> str:
    if isinstance(request, FetchRequest):
        return FETCHES
    return SNAPSHOTS if isinstance(request, FetchSnapshotRequest) else VOTES
