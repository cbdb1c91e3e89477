"""The one way to another node: calls over connections that are opened when needed and reopened when lost.

A call is answered, or fails in one of four ways (`core.errors.PeerError`), of which each says whether the other node
may have done what it was asked. Nothing is retried here: the caller knows whether that does harm.
"""

from barnabas.runtime.peers.limits import PeerLimits
from barnabas.runtime.peers.peers import Peer, Peers
from barnabas.wire.writing import Values

__all__ = ["Peer", "PeerLimits", "Peers", "Values"]
