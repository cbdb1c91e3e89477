"""Publishing a batch, whole, in the driver, once all of its tasks are prepared.

It writes what it intends into the ledger, in a transaction of its own id, and then commits the transactions of all
tasks. A crash before the entry is there has published nothing: the batch is run again, and what is open is aborted.
After that the batch is carried out to its end, here or, after a crash, when the batch is run again (`preparing`).

Of two runs of a query only one can write: taking over the driver's id fences the other. And an entry is written only in
the place of the one that the tasks have gone by, so that no run overlooks what another has published meanwhile.
"""

import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from barnabas.client.batch_producer import Producer
from barnabas.client.batch_transactions import BatchTransaction
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import ProducerBroken, Refused, TransactionFenced, TransactionTimedOut, Unreachable
from barnabas.core.errors import BarnabasError
from barnabas.spark.checkpoints import source_offsets
from barnabas.spark.sink import steps
from barnabas.spark.sink.ledger import Intent, Ledger
from barnabas.spark.sink.messages import NOTHING_SEEN, ShareWritten
from barnabas.spark.sink.options import WriteOptions, settings_key
from barnabas.spark.sink.progress import PATIENCE_S, ProgressGroup
from barnabas.spark.sink.shares import Prepared, Share, share_id
from barnabas.spark.sink.steps import TopicStep

T = TypeVar("T")
R = TypeVar("R")

_FEW: Final = 3  # transactions, which are ended over one connection
_SWEPT_AT_MOST: Final = 100  # tasks that are looked after
_ABORT_S: Final = 10.0
_KEPT: Final = 16
_AT_ONCE: Final = 8  # transactions that are ended
_LIKELY_OPEN: Final = 0.25  # of its timeout: a transaction that is not older is not asked after
_MAX_ATTEMPTS: Final = 4  # at a task, as Spark has it by default; what more of them left open ends by its timeout
_LATE_S: Final = 0.5  # for a worker whose task has failed to come to its end
_SWEEP_S: Final = 30.0  # between two looks for what attempts that do not count have left open
_LONG_S: Final = 0.05  # for a batch, for each look: then looking takes little in comparison
_UNSUPPORTED: Final = 35


class BatchPublisher:
    """Publishes the batches of one query, or of one batch write, one after another."""

    def __init__(self, options: WriteOptions, owner: str) -> None:
        self._options = options
        self._owner = owner
        self._brokers = Brokers(options.settings)
        self._coordinators = Coordinators(self._brokers)
        self._transaction = self._transaction_of(self._coordinators, f"{options.prefix}{owner}")
        self._ledger = Ledger(self._coordinators, prefix=options.prefix, owner=owner, topic=options.progress_topic)
        self._entry: Intent | None = None
        self._is_ours = False  # whether the entry above is known to be the last
        self._swept_at = float("-inf")

    @property
    def can_go_on(self) -> bool:
        """Whether it may be kept: an end that was asked for over a connection that was lost could end the next."""
        return self._coordinators.lost_count == 0

    def publish(self, batch_id: int, shares: Sequence[ShareWritten]) -> None:
        """Publish a batch. If it is refused, nothing of it is seen, or it is in the ledger and goes on from there."""
        prepared = [share.prepared for share in shares if share.prepared is not None]
        if self._options.is_tracked:
            before = self._check_seen(batch_id, shares, prepared)
            if not prepared and not before:
                return
            self._check_open(shares)
            if prepared:
                self._write_intent(batch_id, prepared, before)
            prepared = [*before, *prepared]
        else:
            self._check_open(shares)
        steps.reached(TopicStep.INTENDED)
        self._commit_all(batch_id, prepared)
        self._sweep(prepared, _age_s(shares))

    def abort(self, batch_id: int, tasks: Iterable[int], prepared: Sequence[Prepared]) -> None:
        """Abort the open transactions of a failed batch, unless it is to be published nevertheless."""
        if self._options.is_tracked:
            entry = self._ledger.read(_ABORT_S)
            if entry is not None and entry.batch_id >= batch_id:
                return
        self._each(prepared, self._abort_prepared)
        done = {each.task for each in prepared}
        failed = [task for task in tasks if task not in done][:_SWEPT_AT_MOST]
        # A task that failed may still be at work, and then finds its id taken over; or it may be about to begin.
        self._each(self._ids((task, 0) for task in failed), self._take_over)
        time.sleep(_LATE_S)
        self._abort_open(itertools.product(failed, range(_MAX_ATTEMPTS)))

    def close(self) -> None:
        self._brokers.close()

    # The ledger

    def _check_seen(
        self, batch_id: int, shares: Sequence[ShareWritten], prepared: Sequence[Prepared]
    ) -> list[Prepared]:
        """Refuse unless tasks went by the last entry; gives what an earlier run has prepared of this batch."""
        seen = {share.seen for share in shares if share.seen is not None}
        if not self._is_ours or seen - {_token(self._entry)}:
            if prepared:
                self._transaction.initialise(PATIENCE_S)
            self._entry = self._ledger.read(PATIENCE_S)
            self._is_ours = bool(prepared)
        if seen - {_token(self._entry)}:
            self._each(prepared, self._abort_prepared)
            raise TransactionFenced(
                f"another run of {self._owner!r} published batch {self._entry.batch_id if self._entry else -1} while "
                f"this one wrote batch {batch_id}: is the query running twice? Nothing of this batch was published"
            )
        if self._entry is None or self._entry.batch_id != batch_id:
            return []
        now = {each.task for each in prepared}
        return [each for each in self._entry.shares or () if each.task not in now]

    def _write_intent(self, batch_id: int, prepared: Sequence[Prepared], before: Sequence[Prepared]) -> None:
        is_again = self._entry is not None and self._entry.batch_id == batch_id
        source = source_offsets(self._options.checkpoint, batch_id)
        entry = Intent(
            batch_id,
            token=uuid.uuid4().hex[:16],
            sink=self._options.sink,
            digest=source.digest,
            topics=source.topics,
            shares=None if is_again and self._entry and self._entry.shares is None else (*before, *prepared),
        )
        self._is_ours = False  # until it is known what became of it
        self._ledger.write(self._transaction, entry)
        self._transaction.end(commit=True)
        self._entry, self._is_ours = entry, True

    # Transactions of tasks

    def _check_open(self, shares: Sequence[ShareWritten]) -> None:
        """Refuse a batch of which something has run out of time already: it is published whole or not at all.

        One that is tracked is only looked at when it is old: what turns out to be missing is written when it is run
        again. Nobody runs the others again.
        """
        timeout_s = self._options.transaction_timeout_ms / 1000
        oldest_s = _age_s(shares)
        if self._options.is_tracked and oldest_s < timeout_s * _LIKELY_OPEN:
            return
        prepared = [each.prepared for each in shares if each.prepared is not None]
        open_now = self._each(prepared, self._is_open)
        if not all(open_now):
            self._each(prepared, self._abort_prepared)
            raise TransactionTimedOut(
                f"{open_now.count(False)} of {len(prepared)} transactions of {self._owner!r} were taken over, or ended "
                f"by the cluster, which it does after {timeout_s:g} s; the oldest was open for {oldest_s:.0f} s. "
                "Nothing was published: see option 'transactionTimeout', or make batches smaller"
            )

    def _commit_all(self, batch_id: int, prepared: Sequence[Prepared]) -> None:
        def commit(each: Prepared, coordinators: Coordinators) -> bool:
            return self._commit(batch_id, each, coordinators)

        committed = self._each(prepared[:1], commit)
        if len(prepared) > 1:
            steps.reached(TopicStep.PART_PUBLISHED)
            committed += self._each(prepared[1:], commit)
        if not all(committed):
            after = (
                "It is run again, and what is missing is published then"
                if self._options.is_tracked
                else "The rows of the others are published"
            )
            raise TransactionTimedOut(
                f"{committed.count(False)} of {len(committed)} transactions of batch {batch_id} of {self._owner!r} "
                f"were ended by the cluster, or taken over, while the batch was being published. {after}"
            )

    def _commit(self, batch_id: int, prepared: Prepared, coordinators: Coordinators) -> bool:
        """Commit a share; False if its transaction was aborted instead."""
        try:
            self._resumed(prepared, coordinators).end(commit=True)
        except (TransactionFenced, ProducerBroken):
            if not self._options.is_tracked:
                return False
            share = Share(self._owner, prepared.task, batch_id)
            group = ProgressGroup(coordinators, share, prefix=self._options.prefix, topic=self._options.progress_topic)
            progress = group.read(PATIENCE_S, require_stable=False)
            return progress is not None and progress.batch_id >= batch_id
        return True

    def _is_open(self, prepared: Prepared, coordinators: Coordinators) -> bool:
        try:
            return self._resumed(prepared, coordinators).is_open()
        except Refused as error:
            if error.code == _UNSUPPORTED:
                return True  # an older broker, which says so only when it is asked to commit
            raise

    def _abort_prepared(self, prepared: Prepared, coordinators: Coordinators) -> None:
        with contextlib.suppress(TransactionFenced, ProducerBroken, Unreachable):  # ended already, or by its timeout
            self._resumed(prepared, coordinators).end(commit=False, patience_s=_ABORT_S)

    def _resumed(self, prepared: Prepared, coordinators: Coordinators) -> BatchTransaction:
        transaction = self._transaction_of(coordinators, prepared.transactional_id(self._options.prefix, self._owner))
        transaction.resume(Producer(prepared.producer_id, prepared.epoch))
        return transaction

    def _transaction_of(self, coordinators: Coordinators, transactional_id: str) -> BatchTransaction:
        return BatchTransaction(
            coordinators, transactional_id, timeout_ms=self._options.transaction_timeout_ms, patience_s=PATIENCE_S
        )

    # What other attempts left

    def _sweep(self, prepared: Sequence[Prepared], age_s: float) -> None:
        """Abort the open transactions of superseded attempts, which would block readers.

        Spark makes second attempts where tasks failed or take long. After a batch that was quick, nothing is looked for
        unless it is time again.
        """
        winners = {(each.task, each.attempt) for each in prepared}
        tasks = sorted({each.task for each in prepared})[:_SWEPT_AT_MOST]
        losers = [pair for pair in itertools.product(tasks, range(_MAX_ATTEMPTS)) if pair not in winners]
        now = time.monotonic()
        is_likely = any(each.attempt for each in prepared) or age_s >= _LONG_S * len(losers)
        if now < self._swept_at + _SWEEP_S and not is_likely:
            return
        self._swept_at = now
        with contextlib.suppress(BarnabasError):  # the batch is published; these end by their timeout
            self._abort_open(losers)

    def _abort_open(self, attempts: Iterable[tuple[int, int]]) -> None:
        self._each(self._ids(attempts), self._abort_id)

    def _ids(self, attempts: Iterable[tuple[int, int]]) -> list[str]:
        return [share_id(self._options.prefix, self._owner, task, attempt) for task, attempt in attempts]

    def _abort_id(self, transactional_id: str, coordinators: Coordinators) -> None:
        if self._transaction_of(coordinators, transactional_id).find_open(_ABORT_S) is not None:
            self._take_over(transactional_id, coordinators)

    def _take_over(self, transactional_id: str, coordinators: Coordinators) -> None:
        self._transaction_of(coordinators, transactional_id).initialise(_ABORT_S)

    def _each(self, items: Sequence[T], act: Callable[[T, Coordinators], R]) -> list[R]:
        """What `act` gives for each; several at once, where there are many, over connections of their own."""
        lanes = [items[lane::_AT_ONCE] for lane in range(min(_AT_ONCE, len(items)))]
        if len(items) <= _FEW:
            return [act(item, self._coordinators) for item in items]

        def run(lane: Sequence[T]) -> list[R]:
            with contextlib.closing(Brokers(self._options.settings)) as brokers:
                coordinators = Coordinators(brokers)
                return [act(item, coordinators) for item in lane]

        with ThreadPoolExecutor(len(lanes)) as pool:
            done = list(pool.map(run, lanes))
        return [done[number % len(lanes)][number // len(lanes)] for number in range(len(items))]


_publishers: dict[Any, BatchPublisher] = {}  # of this process


def publish_batch(options: WriteOptions, batch_id: int, shares: Sequence[ShareWritten], *, keep: bool) -> None:
    """Publish a batch whose tasks are all prepared; `keep` what does so for the next batch."""
    if not shares:
        return
    owner = shares[0].owner
    key = (settings_key(options), owner)
    publisher = _publishers.pop(key, None) or BatchPublisher(options, owner)
    try:
        publisher.publish(batch_id, shares)
    except BaseException:
        publisher.close()
        raise
    if not keep or not publisher.can_go_on:
        publisher.close()
        return
    while len(_publishers) >= _KEPT:
        _publishers.pop(next(iter(_publishers))).close()
    _publishers[key] = publisher


def abort_batch(options: WriteOptions, batch_id: int, shares: Sequence[ShareWritten | None], owner: str | None) -> None:
    """Abort the open transactions of a failed batch; those that cannot be reached end by their timeout."""
    owner = owner or next((share.owner for share in shares if share is not None), None)
    if owner is None:
        return  # no task has told which query this is of
    with contextlib.suppress(BarnabasError), contextlib.closing(BatchPublisher(options, owner)) as publisher:
        prepared = [share.prepared for share in shares if share is not None and share.prepared is not None]
        publisher.abort(batch_id, range(len(shares)), prepared)


def _age_s(shares: Sequence[ShareWritten]) -> float:
    """The age of the first transaction of a batch."""
    return max((time.time() - each.began_at_s for each in shares if each.prepared is not None), default=0.0)


def _token(entry: Intent | None) -> str:
    return NOTHING_SEEN if entry is None else entry.token
