"""What a task does with its share, exactly once: it writes it whole, in a transaction that it leaves open.

A task never commits. When rows stop coming because something before the sink has failed, Spark ends the sink's input as
if it were complete; only the driver learns which tasks have succeeded, and it ends the transactions (`committing`).

Before it writes, a task looks whether its batch is in the ledger of the query. If it is, an earlier run of the driver
came that far: the share's transaction is committed now, unless it was, or has run out of time, and is written again
then. The progress in the transaction itself tells which.

Two attempts at a task have ids of their own and do not know of each other. Of two runs of a query the later to
initialise an id wins: what was open under it is aborted, and the other run's driver finds that out.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from barnabas.client.batch_producer import Producer
from barnabas.client.batch_transactions import BatchTransaction
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import DeliveryFailed, ProducerBroken, TransactionFenced, TransactionTimedOut, Unreachable
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.spark.checkpoints import begin_anew, source_offsets
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.identity import RowDigest
from barnabas.spark.sink.ledger import Intent, Ledger
from barnabas.spark.sink.messages import NOTHING_SEEN, ShareWritten
from barnabas.spark.sink.options import WriteOptions, settings_key
from barnabas.spark.sink.progress import PATIENCE_S, ProgressGroup, ensure_topic
from barnabas.spark.sink.sending import Sender
from barnabas.spark.sink.shares import Prepared, Progress, Share, ShareRows
from barnabas.spark.sink.steps import TopicStep

KEPT_BYTES: Final = 64 * 1024 * 1024  # of a share, to begin anew with; a larger one is Spark's to run again
_ATTEMPTS: Final = 3
_ABORT_S: Final = 10.0
_KEPT_PRODUCERS: Final = 16
# Failures of a producer or of its transaction, which another attempt with a new one may not have.
_BEGIN_ANEW: Final = (ProducerBroken, TransactionFenced, DeliveryFailed, Unreachable)


class ShareProducer:
    """The producer of an attempt's transactions, one for each batch, each under an epoch of its own."""

    def __init__(self, options: WriteOptions, share: Share) -> None:
        self._options = options
        self._brokers = Brokers(options.settings)
        self._coordinators = Coordinators(self._brokers)
        self._transaction = BatchTransaction(
            self._coordinators,
            share.transactional_id(options.prefix),
            timeout_ms=options.transaction_timeout_ms,
            patience_s=PATIENCE_S,
        )
        self._sender: Sender | None = None
        self._began_at = 0.0
        self._is_open = False

    def make_contact(self) -> None:
        """Refuse soon if the cluster is not reachable."""
        self._brokers.wait_reachable(self._options.contact_s)
        if self._options.is_tracked:
            ensure_topic(self._options.settings, self._options.progress_topic, contact_s=self._options.contact_s)

    def prepare(self, share: Share, layout: Layout, rows: ShareRows) -> ShareWritten:
        """Write a share and leave its transaction open, unless it was published."""
        if not self._options.is_tracked:
            self._initialise()
            steps.reached(TopicStep.READY)
            return self._write(share, layout, rows, NOTHING_SEEN)
        ledger = Ledger(
            self._coordinators, prefix=self._options.prefix, owner=share.owner, topic=self._options.progress_topic
        )
        intent = ledger.read(PATIENCE_S)
        seen = NOTHING_SEEN if intent is None else intent.token
        if intent is not None:
            check_same(self._options, share, intent, lambda: self._is_whole(share, intent))
        if intent is not None and intent.batch_id == share.batch_id:
            published = self._carry_out(share, layout, rows, intent)
            if published is not None:
                return ShareWritten(share.owner, share.task, published, was_published_before=True, seen=seen)
        self._initialise()
        if intent is None or intent.batch_id == share.batch_id:
            # Of the batch something may be published, by an earlier run or by one that kept no ledger. Of the latter
            # everything was under the id that is ours now; what else is open is another attempt at this task.
            progress = self._progress(share).read(PATIENCE_S, require_stable=intent is not None)
            if progress is not None and progress.batch_id >= share.batch_id:
                row_count = check_progress(share, progress, layout, rows)
                return ShareWritten(share.owner, share.task, row_count, was_published_before=True, seen=seen)
        steps.reached(TopicStep.READY)
        return self._write(share, layout, rows, seen)

    def _initialise(self) -> None:
        """Get a new epoch: the open transaction of this id is ended."""
        self._transaction.initialise(PATIENCE_S)
        if self._sender is None:
            self._sender = Sender(self._brokers, self._options, self._transaction.producer, self._transaction)
        else:
            self._sender.begin_anew(self._transaction.producer)

    def _write(self, share: Share, layout: Layout, rows: ShareRows, seen: str) -> ShareWritten:
        assert self._sender is not None, "it was initialised"
        self._began_at, self._is_open = time.monotonic(), True
        began_at_s = time.time()
        digest = RowDigest(layout) if self._options.is_known_by_rows else None
        row_count = self._sender.send(rows, layout, digest)
        steps.reached(TopicStep.SENT)
        if self._options.is_tracked:
            self._progress(share).write(self._transaction, Progress(share.batch_id, row_count))
        steps.reached(TopicStep.MARKED)
        self._sender.flush()
        self._is_open = False  # the driver's to end
        steps.reached(TopicStep.PREPARED)
        producer_id, epoch = self._transaction.producer
        prepared = Prepared(
            share.task, share.attempt, producer_id, epoch, row_count, digest.hexdigest() if digest else ""
        )
        return ShareWritten(share.owner, share.task, row_count, seen=seen, prepared=prepared, began_at_s=began_at_s)

    def _carry_out(self, share: Share, layout: Layout, rows: ShareRows, intent: Intent) -> int | None:
        """Complete what an earlier run has left of a batch; returns the rows of the share, if it is published now."""
        mine = intent.share_of(share.task)
        if intent.shares is None:
            return None  # its progress tells
        if mine is not None and self._is_committed(share, mine):
            row_count, digest = _count(rows, layout, is_named=self._options.is_known_by_rows)
            if (row_count, digest) == (mine.row_count, mine.digest):
                return row_count
        elif mine is not None:
            return None  # it has run out of time: to be written again
        if not self._options.is_known_by_rows and intent.digest:
            # The batch is the same one, though its rows were dealt out in another way: fine if there is nothing to do.
            others = [each for each in intent.shares if each.task != share.task]
            if all(self._is_committed(share, each) for each in others):
                return _count(rows, layout, is_named=False)[0]
        raise InvalidRequest(
            f"batch {share.batch_id} of {share.owner!r} was published before, and task {share.task} has other rows "
            "now than then: Spark has dealt the rows out in another way, or they are other rows. Run it with as many "
            "cores, and over the same data, as before"
        )

    def _is_whole(self, share: Share, intent: Intent) -> bool:
        """Carry out what an earlier run intended; False if a part of it has run out of time."""
        last = Share(share.owner, share.task, intent.batch_id)
        committed = [self._is_committed(last, each) for each in intent.shares or ()]
        return all(committed)

    def _is_committed(self, share: Share, prepared: Prepared) -> bool:
        """Commit a share that an earlier run has prepared; False if that cannot be done any more."""
        transaction = BatchTransaction(
            self._coordinators,
            prepared.transactional_id(self._options.prefix, share.owner),
            timeout_ms=self._options.transaction_timeout_ms,
            patience_s=PATIENCE_S,
        )
        transaction.resume(Producer(prepared.producer_id, prepared.epoch))
        try:
            transaction.end(commit=True)
        except (TransactionFenced, ProducerBroken):
            progress = self._progress(Share(share.owner, prepared.task, share.batch_id)).read(
                PATIENCE_S, require_stable=False
            )
            return progress is not None and progress.batch_id == share.batch_id
        return True

    def _progress(self, share: Share) -> ProgressGroup:
        return ProgressGroup(self._coordinators, share, prefix=self._options.prefix, topic=self._options.progress_topic)

    def close(self) -> None:
        """Close the producer; an unfinished transaction is aborted, here or by the next producer of this id."""
        if self._is_open:
            with contextlib.suppress(BarnabasError):
                self._transaction.end(commit=False, patience_s=_ABORT_S)
        self._brokers.close()
        if self._sender is not None:
            self._sender.close()

    def reason(self, error: BarnabasError) -> BarnabasError:
        """The error for the user."""
        if not isinstance(error, TransactionFenced):
            return error
        open_s = time.monotonic() - self._began_at
        timeout_s = self._options.transaction_timeout_ms / 1000
        if self._is_open and open_s >= timeout_s:
            return TransactionTimedOut(
                f"the transaction of {self._transaction.id!r} was open for {open_s:.0f} s; the cluster ends it after "
                f"{timeout_s:g} s: see option 'transactionTimeout', or make batches smaller"
            )
        return TransactionFenced(f"another run of this task took over the transactional id {self._transaction.id!r}")


def check_same(options: WriteOptions, share: Share, intent: Intent, is_whole: Callable[[], bool]) -> None:
    """Refuse a batch that is not the one in the ledger, or does not come after it, before anything of it is written.

    The advice relies on the last batch being published completely: `is_whole` ensures that.
    """
    if intent.batch_id > share.batch_id:
        raise InvalidRequest(_too_late(options, share, intent, is_whole))
    if intent.batch_id == share.batch_id and intent.sink != options.sink:
        before, now = (
            f"topic {sink!r}" if sink else "the topics its rows name" for sink in (intent.sink, options.sink)
        )
        raise InvalidRequest(
            f"batch {share.batch_id} of {share.owner!r} was published to {before}, and is to go to {now} now. Nothing "
            "was written. Run the query once with the topic it had, until that batch is done"
        )
    # Also of an earlier batch: those since then may have had no rows, and nobody has looked at the ledger for them.
    digest = source_offsets(options.checkpoint, intent.batch_id).digest
    if intent.digest and digest and intent.digest != digest:
        raise InvalidRequest(
            f"batch {intent.batch_id} of {share.owner!r} was published with other offsets of its source: this is an "
            "old copy of the checkpoint. Nothing was written. " + _advice(intent, is_whole=is_whole())
        )


def _too_late(options: WriteOptions, share: Share, intent: Intent, is_whole: Callable[[], bool]) -> str:
    if options.named is not None and options.is_known_by_rows:
        return (
            f"a write of txnAppId {options.named.app_id!r} with txnVersion {intent.batch_id} was published already, "
            f"and this one has {share.batch_id}: versions only grow. Nothing was written. If it is the number of a "
            "batch, its query runs from an old copy of the checkpoint: go on with the newest. Give a new write a "
            "higher one"
        )
    return (
        f"batch {intent.batch_id} of {share.owner!r} was published already, and this is batch {share.batch_id}: "
        "this is an old copy of the checkpoint, or two queries run from one checkpoint. Nothing was written. "
        + _advice(intent, is_whole=is_whole())
    )


def _advice(intent: Intent, *, is_whole: bool) -> str:
    if not is_whole:
        return (
            f"Go on with the newest checkpoint: only a part of batch {intent.batch_id} was published before the query "
            "died, and a run from there publishes the rest"
        )
    return f"Go on with the newest checkpoint. Without it, {begin_anew(intent.topics, 'what was published')}"


def check_progress(share: Share, progress: Progress, layout: Layout, rows: ShareRows) -> int:
    """The rows of a share of which its progress says that it was published; refused if it is another one."""
    if progress.batch_id > share.batch_id:
        raise InvalidRequest(
            f"batch {progress.batch_id} of {share.owner!r} was published already, and this is batch {share.batch_id}: "
            "this is an old copy of the checkpoint. Nothing was written. Go on with the newest checkpoint"
        )
    row_count, _ = _count(rows, layout, is_named=False)
    if progress.row_count is not None and progress.row_count != row_count:
        raise InvalidRequest(
            f"batch {share.batch_id} of {share.owner!r} was published by task {share.task} with "
            f"{progress.row_count} row(s), and has {row_count} now: Spark has dealt its rows out in another way. "
            "Run it with as many cores, and over the same data, as before"
        )
    return row_count


def _count(rows: ShareRows, layout: Layout, *, is_named: bool) -> tuple[int, str]:
    """How many rows a share has, and their digest where that identifies them."""
    digest = RowDigest(layout)
    row_count = 0
    for batch in rows:
        row_count += batch.num_rows
        if is_named:
            digest.add(batch)
    return row_count, digest.hexdigest() if is_named else ""


class KeptProducers:
    """The producers of a worker process, by transactional id and all that they were made from; few are kept."""

    def __init__(self) -> None:
        self._kept: dict[Any, ShareProducer] = {}

    def take(self, options: WriteOptions, share: Share) -> ShareProducer:
        """A producer; it is the caller's until it is put back."""
        kept = self._kept.pop(_key(options, share), None)
        if kept is not None:
            return kept
        producer = ShareProducer(options, share)
        producer.make_contact()
        return producer

    def put_back(self, options: WriteOptions, share: Share, producer: ShareProducer) -> None:
        while len(self._kept) >= _KEPT_PRODUCERS:
            self._kept.pop(next(iter(self._kept))).close()
        self._kept[_key(options, share)] = producer


_producers = KeptProducers()  # of this process


def prepare_share(options: WriteOptions, layout: Layout, share: Share, rows: ShareRows, *, keep: bool) -> ShareWritten:
    """Prepare a share for the driver to publish; `keep` its producer for a later batch of the same task."""
    for left in reversed(range(_ATTEMPTS)):
        steps.reached(TopicStep.STARTED)
        producer = _producers.take(options, share)
        try:
            written = producer.prepare(share, layout, rows)
        except _BEGIN_ANEW as error:
            producer.close()
            refusal = producer.reason(error)
            is_superseded = isinstance(refusal, (TransactionFenced, TransactionTimedOut))
            if is_superseded or not rows.can_repeat or not left:
                raise refusal from None
        except BaseException:
            producer.close()
            raise
        else:
            if keep:
                _producers.put_back(options, share, producer)
            else:
                producer.close()
            return written
    raise AssertionError("the last attempt returns or raises")


def _key(options: WriteOptions, share: Share) -> Any:
    return (settings_key(options), share.transactional_id(options.prefix))
