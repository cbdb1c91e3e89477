"""A transactional id under any schedule: two producers compete for it, lose answers, send requests twice and late,
change their version, time passes, markers are written, ids expire. What must hold is checked after every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.core.coordination import Decision
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.ending import Ended, markers_due
from barnabas.core.transactions.expiring import decide_expiry
from barnabas.core.transactions.initialising import Initialised
from barnabas.core.transactions.records import Owner, State, TransactionRecord
from tests.support.examples import examples
from tests.unit.core.transactions.transaction_driver import NAME, TIMEOUT_MS, TIMER, Coordinator

NOBODY = Owner(-1, -1)
FIRST = Owner(7, 0)
RETENTION_MS = 5 * TIMEOUT_MS

# What may become of each state.
AFTER = {
    State.EMPTY: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.ONGOING: {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT},
    State.PREPARE_COMMIT: {State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.COMPLETE_ABORT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
}


class Request(NamedTuple):
    """A request as it was sent, to be sent again."""

    kind: str
    actor: int
    producer: Owner
    version: int
    is_commit: bool = False
    partition: int = 0


@dataclass
class Actor:
    """A client: what it believes."""

    producer: Owner = NOBODY
    version: int = 2


class TransactionMachine(RuleBasedStateMachine):
    @initialize(epoch=st.sampled_from((None, 0, 32_760, 32_763, 32_764)))
    def start(self, epoch: int | None) -> None:
        self.coordinator = Coordinator()
        self.actors = [Actor(), Actor()]
        self.sent: list[Request] = []
        self.told: dict[Owner, int] = {}  # who was given each id and epoch
        self.ends: dict[Owner, bool] = {}  # how the transaction of each ended, with version 2
        self.epochs: dict[int, int] = {}
        self.last_id = -1
        if epoch is not None:
            self.coordinator.take(
                Decision([TransactionRecord(NAME, FIRST.producer_id, epoch, 1, State.EMPTY, update_ms=1_000_000)], None)
            )

    @property
    def found(self) -> TransactionRecord | None:
        return self.coordinator.transactions.get(NAME)

    # What clients do.

    @rule(actor=st.integers(0, 1), is_new=st.booleans(), version=st.sampled_from((0, 2, 2)), hears=st.booleans())
    def init(self, actor: int, version: int, *, is_new: bool, hears: bool) -> None:
        client = self.actors[actor]
        client.version = version
        self.send(Request("init", actor, NOBODY if is_new else client.producer, version), hears=hears)

    @rule(actor=st.integers(0, 1), partition=st.integers(0, 2))
    def add(self, actor: int, partition: int) -> None:
        client = self.actors[actor]
        self.send(Request("add", actor, client.producer, client.version, partition=partition), hears=True)

    @rule(actor=st.integers(0, 1), is_commit=st.booleans(), hears=st.booleans())
    def end(self, actor: int, *, is_commit: bool, hears: bool) -> None:
        client = self.actors[actor]
        self.send(Request("end", actor, client.producer, client.version, is_commit=is_commit), hears=hears)

    @rule(index=st.integers(0, 6))
    def send_again(self, index: int) -> None:
        if self.sent:
            self.send(self.sent[-1 - index % len(self.sent)], hears=False)

    # What takes several steps in the right order, so that schedules come far.

    @rule(actor=st.integers(0, 1), version=st.sampled_from((0, 2, 2)))
    def take_over(self, actor: int, version: int) -> None:
        self.write_markers()
        self.init(actor, version, is_new=True, hears=True)
        self.write_markers()
        self.init(actor, version, is_new=False, hears=True)

    @rule(actor=st.integers(0, 1), is_commit=st.booleans(), hears=st.booleans(), is_written=st.booleans())
    def run_transaction(self, actor: int, *, is_commit: bool, hears: bool, is_written: bool) -> None:
        self.add(actor, 0)
        self.end(actor, is_commit=is_commit, hears=hears)
        if is_written:
            self.write_markers()

    # What the coordinator does.

    @rule()
    def write_markers(self) -> None:
        self.check_step(self.found, self.coordinator.complete)

    @rule(delay_ms=st.sampled_from((1, TIMEOUT_MS // 2, TIMEOUT_MS, RETENTION_MS)))
    def let_time_pass(self, delay_ms: int) -> None:
        self.coordinator.now_ms += delay_ms
        if self.coordinator.timers.get(TIMER, self.coordinator.now_ms + 1) <= self.coordinator.now_ms:
            self.check_step(self.found, self.coordinator.fire)
            assert self.coordinator.record.state is State.PREPARE_ABORT

    @rule()
    def expire(self) -> None:
        now_ms = self.coordinator.now_ms
        self.coordinator.take(decide_expiry(self.coordinator.transactions, retention_ms=RETENTION_MS, now_ms=now_ms))

    # How a request is sent, and what is held against its outcome.

    def send(self, request: Request, *, hears: bool) -> None:
        self.sent.append(request)
        before = self.found
        try:
            reply = self.check_step(before, lambda: self.ask(request))
        except BarnabasError:
            assert self.found == before
            return
        finally:
            self.check_stale(request, before)
        if isinstance(reply, Ended) and request.version == 2:
            assert self.ends[request.producer] == request.is_commit
        if isinstance(reply, Initialised | Ended):
            given = Owner(reply.producer_id, reply.producer_epoch)
            if given != NOBODY:
                assert self.told.setdefault(given, request.actor) == request.actor
                self.actors[request.actor].producer = given if hears else self.actors[request.actor].producer

    def ask(self, request: Request) -> object:
        producer = request.producer
        if request.kind == "init":
            return self.coordinator.init(*producer, timeout_ms=TIMEOUT_MS)
        if request.kind == "add":
            self.coordinator.add(*producer, TopicPartition("t", request.partition), version=request.version)
            return None
        return self.coordinator.end(*producer, is_commit=request.is_commit, version=request.version)

    def check_stale(self, request: Request, before: TransactionRecord | None) -> None:
        """A producer that was replaced changes no transaction, and nobody's epoch."""
        is_new = request.kind == "init" and request.producer == NOBODY
        if before is None or is_new or request.producer == before.owner:
            return
        after = self.found
        assert after is not None
        assert after.owner == before.owner
        if before.state is State.ONGOING or before.state.is_prepared:
            assert after == before

    def check_step(self, before: TransactionRecord | None, step: Callable[[], object]) -> object:
        reply = step()
        after = self.found
        if before is not None and after is not None and after != before:
            self.check_transition(before, after)
        return reply

    def check_transition(self, before: TransactionRecord, after: TransactionRecord) -> None:
        assert after.state in AFTER[before.state]
        if before.state is State.ONGOING:
            assert after.has_partitions(before.partition_names())
        if after.state.is_prepared:
            due = markers_due(after)
            assert due is not None
            assert list(due.partitions) == list(before.partition_names())
            assert (due.producer_id, due.producer_epoch) == (
                before.producer_id,
                before.producer_epoch + (after.version == 2),
            )
            if after.version == 2:
                assert Owner(before.producer_id, before.producer_epoch) not in self.ends
                self.ends[Owner(before.producer_id, before.producer_epoch)] = after.state.is_commit
        if after.state is State.ONGOING:
            assert after.owner == before.owner

    @invariant()
    def epochs_never_go_back(self) -> None:
        record = self.found
        if record is None:
            return
        assert self.epochs.get(record.producer_id, -1) <= record.producer_epoch <= 32_767
        assert record.producer_id == self.last_id or record.producer_id not in self.epochs
        assert record.owner.producer_epoch < 32_767
        self.epochs[record.producer_id] = record.producer_epoch
        self.last_id = record.producer_id

    @invariant()
    def only_an_ongoing_transaction_has_a_timer(self) -> None:
        record = self.found
        if record is not None and record.state is State.ONGOING:
            assert self.coordinator.timers == {TIMER: record.start_ms + record.timeout_ms}
        else:
            assert self.coordinator.timers == {}

    @invariant()
    def the_log_makes_equal_transactions(self) -> None:
        assert self.coordinator.replay() == self.coordinator.transactions


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)
