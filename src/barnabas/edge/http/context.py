"""What every route of the API has: the node's parts, the way to other nodes, and who is asking."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from barnabas.core.access.resources import CLUSTER, Operation, Resource
from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, GroupIdNotFound
from barnabas.core.errors.codes import refusal_of
from barnabas.core.metadata.records import NO_LEADER
from barnabas.edge.http.problems import HttpRefusal
from barnabas.edge.http.tokens import Login, NotAuthenticated, Tokens
from barnabas.runtime.connections import Connections
from barnabas.services.broker import Broker
from barnabas.services.call_quotas import CallQuotas
from barnabas.services.coordinators import partition_of
from barnabas.services.history import History
from barnabas.services.lag import GroupLags
from barnabas.services.reading import ClusterReader
from barnabas.services.session import Session
from barnabas.services.stats import NodeStats
from barnabas.wire.writing import Values

PURPOSE: Final = "edges"
ASK_TIMEOUT_S: Final = 10.0


class Calls(Protocol):
    """Calls what this node serves over the Kafka port."""

    async def call(self, session: Session, api_key: int, values: Values, *, max_version: int | None = None) -> Any:
        """The answer, as the kio entity."""
        ...


@dataclass(slots=True, kw_only=True)
class Context:
    """The parts of a node that routes use."""

    broker: Broker
    calls: Calls
    reader: ClusterReader
    lags: GroupLags
    stats: NodeStats
    history: History
    connections: Connections
    tokens: Tokens
    login: Login | None = None  # None: nobody has to log in
    is_local: bool = True  # only this machine can reach it
    is_private: bool = True  # nobody on the way can read what is sent: by TLS, or since it does not leave the machine
    tails: int = 0  # streams that are open
    is_stopping: asyncio.Event = field(default_factory=asyncio.Event)
    sizes_at: float = float("-inf")
    sizes: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    sizing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def quotas(self) -> CallQuotas:
        """The quotas of callers."""
        return CallQuotas(self.broker.quotas)

    async def ask(
        self, session: Session, node_id: int, api_key: int, values: Values, *, max_version: int | None = None
    ) -> Any:
        """The answer of a node: this one as the caller, another one as the node itself. Authorize before."""
        others = self.broker.others
        assert others is not None
        if others.is_here(node_id):
            return await self.calls.call(session, api_key, values, max_version=max_version)
        return await others.ask(
            node_id, api_key, values, timeout_s=ASK_TIMEOUT_S, purpose=PURPOSE, max_version=max_version
        )

    async def ask_all(
        self, session: Session, api_key: int, values: Values, *, max_version: int | None = None
    ) -> dict[int, Any | BarnabasError]:
        """The answers of all brokers that take part, by their ids; those that cannot be asked say why."""
        nodes = [node_id for node_id, node in sorted(self.broker.image.nodes.items()) if not node.is_fenced]

        async def one(node_id: int) -> Any | BarnabasError:
            try:
                return await self.ask(session, node_id, api_key, values, max_version=max_version)
            except BarnabasError as error:
                return error.with_traceback(None)

        answers = await asyncio.gather(*(one(node_id) for node_id in nodes))
        return dict(zip(nodes, answers, strict=True))

    def coordinator_of(self, name: str, *, of: str) -> int:
        """The node that coordinates a group or a transactional id; `of` is the topic that they are in."""
        topic = self.broker.image.topics.get(of)
        if topic is None:
            raise GroupIdNotFound(f"there is no '{name}': nothing of its kind exists yet")
        state = topic.partitions[partition_of(name, len(topic.partitions))]
        if state.leader == NO_LEADER:
            raise CoordinatorNotAvailable(f"the coordinator of '{name}' is not available; try again")
        return state.leader

    # Who the caller is, and what it may do

    def identify(self, login: Login, session: Session, token: str) -> None:
        """The caller is whose token this is, for as long as that counts."""
        identity = self.tokens.check(token)

        def check() -> None:
            self.tokens.check_time(identity)
            if not login.still_counts(identity):
                raise NotAuthenticated("the user was deleted, or its password changed, since the log-in; log in again")

        check()
        session.principal, session.check_login = identity.principal, check

    def authorize(self, session: Session, operation: Operation, resource: Resource = CLUSTER) -> None:
        """Refuse what the caller may not do."""
        self.broker.access.authorize(session, operation, resource)

    def allows(self, session: Session, operation: Operation, resource: Resource = CLUSTER) -> bool:
        """Whether the caller may do it."""
        return self.broker.access.allows(session, operation, resource)

    def allowed(self, session: Session, operations: Iterable[Operation], resource: Resource) -> list[str]:
        """The names of what the caller may do, so that nothing else is offered. Without writing: what reads."""
        may_write = self.broker.config.http.http_write_enable
        reading = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
        return [
            operation.name.lower()
            for operation in operations
            if (may_write or operation in reading) and self.allows(session, operation, resource)
        ]

    def check_writable(self, *, is_dry: bool = False) -> None:
        """Refuse what changes something where that is off."""
        if not is_dry and not self.broker.config.http.http_write_enable:
            raise HttpRefusal(403, "this node takes no changes over HTTP: http.write.enable=false", code=31)


def check(code: int, message: str | None = None) -> None:
    """Refuse with what another node or a handler has refused with."""
    if code:
        raise refusal_of(int(code), message or f"refused with error {int(code)}")
