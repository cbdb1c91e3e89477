"""What probes ask: whether the process is alive, and whether the node serves.

`/healthz` answers as long as the loop turns: a process that recovers a large log is alive, and must not be killed for
it. `/readyz` says 200 once clients are let in, while the data directory can be written and the cluster lets the node
take part.
"""

from typing import NamedTuple

import msgspec

from barnabas.services.broker import Broker


class Readiness(NamedTuple):
    """Whether a node serves, and why not."""

    is_ready: bool
    reasons: tuple[str, ...] = ()


def readiness_of(broker: Broker | None) -> Readiness:
    """Of a node; None while it starts or stops."""
    if broker is None:
        return Readiness(is_ready=False, reasons=("the node is starting or stopping",))
    reasons: list[str] = []
    health = broker.logs.data_dir.health
    if health.offline_reason is not None:
        reasons.append(f"the data directory is offline: {health.offline_reason}")
    node = broker.image.nodes.get(broker.config.node_id)
    if broker.config.quorum.is_broker:
        if node is None:
            reasons.append("the node is not registered with the controller")
        elif node.is_fenced:
            reasons.append("the controller has fenced this node")
    return Readiness(is_ready=not reasons, reasons=tuple(reasons))


def readiness_body(found: Readiness) -> bytes:
    """The same as JSON."""
    return msgspec.json.encode({"ready": found.is_ready, "reasons": found.reasons})
