"""Client quotas as every edge uses them: what a client has left, and how it is held when that is nothing.

Owns what clients have used on this node; which quota a client has is decided in `core.access.quotas`, how long it waits
in `core.access.rates`. A client over its quota is answered at once, with the time it should wait, and its connection is
not read for that time, whether the client waits or not.

Without quotas `is_on` is False, and nothing else here is asked. Nodes of the cluster have no quotas.

Memory: what is tracked of a client that is idle says nothing, and is dropped. Of those that are not, so many are
tracked one by one; any more share what one may use (`quota.max.tracked.clients`).
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from barnabas.core.access.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Rules,
    Share,
)
from barnabas.core.access.rates import Allowance, throttle_ms
from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import ThrottlingQuotaExceeded
from barnabas.core.metadata.records import MetadataRecord
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.processor_time import Seconds, measured, thread_seconds
from barnabas.services.access import Access
from barnabas.services.session import ANONYMOUS, Session
from barnabas.services.settings.catalogue.quota_settings import QuotaSettings

T = TypeVar("T")

NODE_CLIENT_ID: Final = re.compile(r"barnabas-node-\d+")
"""The client ids of nodes. Whoever may act for the cluster and has one is a node."""
SWEEP_S: Final = 1.0
"""How often idle clients are looked for, at most, while there are too many."""
FULL: Final = 100.0
"""The percentage of `request_percentage` that is one loop."""

_Key = tuple[str, object]


class QuotaConfig(NamedTuple):
    """What the settings say."""

    burst_s: float
    window_s: float
    mutation_burst_s: float
    max_tracked: int

    @classmethod
    def of(cls, settings: QuotaSettings) -> "QuotaConfig":
        size_s = float(settings.quota_window_size_seconds)
        return cls(
            burst_s=(settings.quota_window_num - 1) * size_s,
            window_s=size_s,
            mutation_burst_s=float(
                settings.controller_quota_window_num * settings.controller_quota_window_size_seconds
            ),
            max_tracked=settings.quota_max_tracked_clients,
        )


class Allowances(NamedTuple):
    """What one client has left of each of its quotas; None where it has none."""

    producing: Allowance | None = None
    consuming: Allowance | None = None
    time: Allowance | None = None
    mutating: Allowance | None = None


UNLIMITED: Final = Allowances()


class Quotas:
    """The quotas of a node's clients."""

    def __init__(
        self,
        metadata: ImageSource | None = None,
        config: QuotaConfig | None = None,
        *,
        access: Access | None = None,
        seconds: Seconds = thread_seconds,
    ) -> None:
        self._metadata = metadata
        self._config = config or QuotaConfig.of(QuotaSettings())
        self._access = access
        self._seconds = seconds
        self._rules = Rules({} if metadata is None else metadata.image.quotas)
        self._state = None if metadata is None else metadata.image.access_state
        self._clients: dict[tuple[str, str], Allowances] = {}
        self._tracked: dict[_Key, Allowance] = {}
        self._shared: dict[_Key, Allowance] = {}  # by those that are not tracked
        self._swept_at = 0.0
        self.is_on = self._rules.has_client_quotas  # whether any client may have a quota
        self.is_on_for_ips = self._rules.has_ip_quotas
        self.throttled = dict.fromkeys(_KINDS.values(), 0)
        self.throttled_ms = dict.fromkeys(_KINDS.values(), 0)

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counters(
            "quota_throttled_total",
            "Requests of clients over a quota, and connections that were held for that, by kind of quota.",
            "quota",
            lambda: self.throttled,
        )
        metrics.counters(
            "quota_throttle_ms_total",
            "Milliseconds for which clients over a quota were held, by kind of quota.",
            "quota",
            lambda: self.throttled_ms,
        )
        metrics.gauge(
            "quota_tracked_clients", "Clients and addresses whose use is tracked.", lambda: len(self._tracked)
        )

    def apply(self, _records: Sequence[MetadataRecord]) -> None:
        """Follow the metadata: records were applied to the image."""
        assert self._metadata is not None
        image = self._metadata.image
        if self._state is not image.access_state:
            self._state = image.access_state
            self._rules = Rules(image.quotas)
            self.is_on = self._rules.has_client_quotas
            self.is_on_for_ips = self._rules.has_ip_quotas
            self._clients.clear()  # what they have used is kept
            if not self._rules:
                self._tracked.clear()
                self._shared.clear()

    # What a client has left

    def of(self, session: Session) -> Allowances:
        """The allowances of a client."""
        if session.is_node or (session.is_for_controllers and not session.is_forwarded):
            return UNLIMITED
        key = (session.principal.name, session.client_id or "")
        found = self._clients.get(key)
        if found is not None:
            return found
        self._make_room()
        found = UNLIMITED if self._is_node(session) else self._find(*key)
        if len(self._clients) < self._config.max_tracked:
            self._clients[key] = found
        return found

    def _is_node(self, session: Session) -> bool:
        if NODE_CLIENT_ID.fullmatch(session.client_id or "") is None:
            return False
        if self._access is None or self._access.is_open:
            return session.principal == ANONYMOUS  # who has logged in is known, and a client id is anybody's to choose
        return self._access.allows(session, Operation.CLUSTER_ACTION, CLUSTER)

    def _find(self, user: str, client_id: str) -> Allowances:
        config = self._config
        return Allowances(
            self._allowance(PRODUCER_BYTE_RATE, user, client_id, burst_s=config.burst_s),
            self._allowance(CONSUMER_BYTE_RATE, user, client_id, burst_s=config.burst_s),
            self._allowance(REQUEST_PERCENTAGE, user, client_id, burst_s=config.burst_s, max_debt_s=config.burst_s),
            self._allowance(CONTROLLER_MUTATION_RATE, user, client_id, burst_s=config.mutation_burst_s),
        )

    def _allowance(
        self, name: str, user: str, client_id: str, *, burst_s: float, max_debt_s: float | None = None
    ) -> Allowance | None:
        share = self._rules.find(name, user=user, client_id=client_id)
        if share is None:
            return None
        if name == REQUEST_PERCENTAGE:
            share = Share(share.limit / FULL, share.holder)
        return self._track(name, share.holder, share.limit, burst_s=burst_s, max_debt_s=max_debt_s)

    def _track(
        self, name: str, holder: object, limit: float, *, burst_s: float, max_debt_s: float | None = None
    ) -> Allowance:
        """What is tracked of a holder; or what all share that are too many."""
        found = self._tracked.get((name, holder))
        if found is None:
            fits = len(self._tracked) < self._config.max_tracked
            held = self._tracked if fits else self._shared
            key = (name, holder if fits else limit)
            found = held.get(key)
            if found is None:
                found = held[key] = Allowance(limit, burst_s=burst_s, max_debt_s=max_debt_s)
        if found.limit != limit:
            found.change(limit, burst_s=burst_s, now_s=_now_s())
        return found

    def _make_room(self) -> None:
        """Drop what says nothing, if there is too much. Never between finding an allowance and using it."""
        if max(len(self._clients), len(self._tracked)) < self._config.max_tracked:
            return
        now_s = _now_s()
        if now_s < self._swept_at + SWEEP_S:
            return
        self._swept_at = now_s
        self._clients.clear()  # they are looked up anew: none must go on with what is dropped here
        self._tracked = {key: each for key, each in self._tracked.items() if not each.is_idle(now_s=now_s)}
        self._shared = {key: each for key, each in self._shared.items() if not each.is_idle(now_s=now_s)}

    # What it uses

    def produce(self, session: Session, size: int) -> None:
        """A client has sent so many bytes to be written."""
        allowance = self.of(session).producing
        if allowance is not None:
            self._hold(session, PRODUCER_BYTE_RATE, allowance.take(size, now_s=_now_s()))

    def most_to_consume(self, session: Session, max_bytes: int) -> int:
        """How many bytes one answer to a client may have: those of one window, so that its rate is even.

        In Kafka it is those of all windows.
        """
        allowance = self.of(session).consuming
        return max_bytes if allowance is None else max(min(max_bytes, int(allowance.limit * self._config.window_s)), 1)

    def may_consume(self, session: Session, size: int) -> bool:
        """Whether a client may be sent so many bytes now; if not, they do not count, and it is held.

        What is larger than all that a client may use at once is sent when it need not wait for anything else, and
        waited for afterwards: else it would never be.
        """
        allowance = self.of(session).consuming
        if allowance is None:
            return True
        now_s = _now_s()
        owed_s = allowance.delay_s(now_s=now_s)
        is_oversized = size > allowance.limit * allowance.burst_s
        delay_s = allowance.take(size, now_s=now_s)
        if delay_s == 0.0 or (is_oversized and owed_s == 0.0):
            self._hold(session, CONSUMER_BYTE_RATE, delay_s)
            return True
        allowance.put_back(size)
        self._hold(session, CONSUMER_BYTE_RATE, owed_s if is_oversized else delay_s)
        return False

    def consume_more(self, session: Session, size: int) -> None:
        """An answer that was allowed has become so much larger."""
        allowance = self.of(session).consuming
        if allowance is not None:
            allowance.take(size, now_s=_now_s())

    def measure(self, session: Session, do: Callable[[], T]) -> T:
        """Do something for a client, as a part of a request, and count the processor time that it takes."""
        allowance = self.of(session).time
        if allowance is None:
            return do()
        return measured(do, lambda spent_s: self._spend(allowance, spent_s), seconds=self._seconds)

    def _spend(self, allowance: Allowance, spent_s: float) -> None:
        allowance.take(spent_s, now_s=_now_s())

    def measure_long(self, session: Session, do: Callable[[], T]) -> T:
        """The same for work that goes on for long: in each of its steps it has the quota of then."""

        def spend(spent_s: float) -> None:
            if self.is_on:
                self.take(session, REQUEST_PERCENTAGE, spent_s)

        return measured(do, spend, seconds=self._seconds)

    def begin(self, session: Session) -> None:
        """A request begins: hold a client whose earlier ones took too much time."""
        allowance = self.of(session).time
        if allowance is not None:
            delay_s = allowance.delay_s(now_s=_now_s())
            self._hold(session, REQUEST_PERCENTAGE, min(delay_s, self._config.window_s))

    def mutate(self, session: Session, count: int, *, is_strict: bool) -> None:
        """A client is about to change so many partitions. If it `is_strict` and over its quota, that is refused."""
        allowance = self.of(session).mutating
        if allowance is None:
            return
        now_s = _now_s()
        delay_s = allowance.delay_s(now_s=now_s)
        if is_strict and delay_s > 0.0:
            self._hold(session, CONTROLLER_MUTATION_RATE, delay_s)
            raise ThrottlingQuotaExceeded(
                f"the quota controller_mutation_rate is used up; try again in {throttle_ms(delay_s)} ms"
            )
        delay_s = allowance.take(count, now_s=now_s)
        if not is_strict:
            self._hold(session, CONTROLLER_MUTATION_RATE, delay_s)

    # For callers whose connection cannot be held: see `services.call_quotas`

    def owed_s(self, session: Session, name: str) -> float:
        """For how many seconds a client would have to wait for what it has used of a quota."""
        allowance = self.of(session)[_PLACES[name]]
        return 0.0 if allowance is None else allowance.delay_s(now_s=_now_s())

    def take(self, session: Session, name: str, amount: float) -> None:
        """A client has used so much."""
        allowance = self.of(session)[_PLACES[name]]
        if allowance is not None:
            allowance.take(amount, now_s=_now_s())

    def note_held(self, name: str, delay_s: float) -> None:
        """A client is told to wait, or made to, for a quota."""
        self._count(name, throttle_ms(delay_s))

    # Connections

    def connect(self, ip: str) -> float:
        """A connection has come from an address: for how many seconds it is held, and then closed; 0: not at all."""
        limit = self._rules.find_ip(ip)
        if limit is None:
            return 0.0
        self._make_room()
        allowance = self._track(CONNECTION_CREATION_RATE, ip, limit, burst_s=self._config.burst_s)
        delay_s = min(allowance.take(1, now_s=_now_s()), self._config.window_s)
        if delay_s > 0.0:
            allowance.put_back(1)
            self._count(CONNECTION_CREATION_RATE, throttle_ms(delay_s))
        return delay_s

    # How it is held

    def hold(self, session: Session, delay_ms: int) -> None:
        """Hold a client for a time that another node has told it."""
        session.throttle_ms = max(session.throttle_ms, delay_ms)
        session.mute(delay_ms / 1000)

    def _hold(self, session: Session, name: str, delay_s: float) -> None:
        if delay_s > 0.0:
            delay_ms = throttle_ms(delay_s)
            self._count(name, delay_ms)
            self.hold(session, delay_ms)

    def _count(self, name: str, delay_ms: int) -> None:
        kind = _KINDS[name]
        self.throttled[kind] += 1
        self.throttled_ms[kind] += delay_ms


_KINDS: Final = {
    PRODUCER_BYTE_RATE: "producer",
    CONSUMER_BYTE_RATE: "consumer",
    REQUEST_PERCENTAGE: "request",
    CONTROLLER_MUTATION_RATE: "mutation",
    CONNECTION_CREATION_RATE: "connection",
}
"""What metrics call them."""


_PLACES: Final = {PRODUCER_BYTE_RATE: 0, CONSUMER_BYTE_RATE: 1, REQUEST_PERCENTAGE: 2, CONTROLLER_MUTATION_RATE: 3}
"""Where an allowance is in `Allowances`."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
