"""Publishing a share exactly once, or at least once.

Exactly once: the share is one transaction, whose id is the same for every attempt, together with the progress of its
task. Initialising a producer ends what an attempt before had left open, one way or the other; the progress then says
whether the share was published. So after any failure there is one thing to do: begin anew with a new producer.

Two attempts at once: the later to initialise wins, the other one's transaction is aborted, and its task fails. A
producer is kept for the next batch of its task; should another process have taken over in between, which the progress
tells, or a coordinator at the latest, that is no failure, and a new one is made.
"""

import contextlib
import time
from collections.abc import Iterable
from typing import Any, Final

from barnabas.client.batch_producer import BatchProducer, Producer
from barnabas.client.batch_transactions import BatchTransaction, new_producer
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import DeliveryFailed, ProducerBroken, TransactionFenced, TransactionTimedOut, Unreachable
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.encoding import Encoded, RowEncoder
from barnabas.spark.sink.options import WriteOptions
from barnabas.spark.sink.progress import ProgressGroup, ensure_topic
from barnabas.spark.sink.shares import Outcome, Progress, Share, ShareRows
from barnabas.spark.sink.steps import Step

PATIENCE_S: Final = 60.0
KEPT_BYTES: Final = 64 * 1024 * 1024  # of a share, to begin anew with; a larger one is Spark's to run again
_ATTEMPTS: Final = 3
_ABORT_S: Final = 10.0
_LOOK_S: Final = 1.0
_KEPT_PRODUCERS: Final = 16
# Failures of a producer or of its transaction, which another attempt with a new one may not have.
_BEGIN_ANEW: Final = (ProducerBroken, TransactionFenced, DeliveryFailed, Unreachable)


class Sender:
    """Encodes and sends the rows of a producer."""

    def __init__(
        self, brokers: Brokers, options: WriteOptions, producer: Producer, transaction: BatchTransaction | None
    ) -> None:
        batching = options.batching
        self._options = options
        self._brokers = brokers
        self._transaction = transaction
        self._transport = BatchProducer(
            brokers,
            producer,
            transactional_id=None if transaction is None else transaction.id,
            delivery_s=batching.delivery_s,
            contact_s=options.contact_s,
            ack_timeout_ms=batching.ack_timeout_ms,
        )

    def send(self, rows: ShareRows, layout: Layout) -> int:
        """Send all rows, and see to it that none is held back; how many there were."""
        batching = self._options.batching
        self._transport.forget_counts()  # this may be kept for as long as its query runs
        encoder = RowEncoder(
            layout,
            self._count_partitions,
            batch_bytes=batching.batch_bytes,
            codec=batching.codec,
            level=batching.level,
        )
        row_count = 0
        for batch in rows:
            self._send_encoded(encoder.encode(batch))
            row_count += batch.num_rows
        self._send_encoded(encoder.rest())
        return row_count

    def flush(self) -> None:
        self._transport.flush()

    def close(self) -> None:
        self._transport.close()
        self._brokers.close()

    def _send_encoded(self, encoded: Iterable[Encoded]) -> None:
        if self._transaction is None:
            for key, batch in encoded:
                self._transport.send(key, batch)
            return
        ready = list(encoded)
        self._transaction.add(key for key, _ in ready)
        for key, batch in ready:
            self._transport.send(key, batch)

    def _count_partitions(self, topic: str, wanted: int) -> int:
        """How many partitions a topic has; looked up anew for one that it did not have."""
        if wanted >= self._transport.partition_count(topic):
            self._transport.look_up(topic)
        return self._transport.partition_count(topic)


class TransactionalProducer:
    """The producer of a task's transactions, one for each batch."""

    def __init__(self, options: WriteOptions, share: Share) -> None:
        self._options = options
        self._brokers = Brokers(options.settings)
        self._coordinators = coordinators = Coordinators(self._brokers)
        self._id = share.transactional_id(options.prefix)
        self._transaction = BatchTransaction(
            coordinators, self._id, timeout_ms=options.transaction_timeout_ms, patience_s=PATIENCE_S
        )
        self._group = ProgressGroup(coordinators, share, prefix=options.prefix, topic=options.progress_topic)
        self._sender: Sender | None = None
        self._began_at = 0.0
        self._is_open = False
        self.progress: Progress | None = None
        self.is_new = True

    def initialise(self, patience_s: float = PATIENCE_S) -> None:
        """Take the transactional id over, and see how far its shares are published."""
        self._transaction.initialise(patience_s)
        self._sender = Sender(self._brokers, self._options, self._transaction.producer, self._transaction)
        self.progress = self._group.read(patience_s)

    @property
    def can_go_on(self) -> bool:
        """Whether it may make another transaction: an end of this one that was asked for twice, once over a connection
        that was lost, could still arrive and end the next, unless that has another epoch."""
        return self._coordinators.lost_count == 0

    def is_still_ours(self) -> bool:
        """Whether nobody else published a share of this task since, or died over it: then it is for a new producer to
        end what was begun, and so not for this one to wait for that."""
        try:
            return self._group.read(_LOOK_S) == self.progress
        except Unreachable:
            return False

    def publish(self, share: Share, layout: Layout, rows: ShareRows) -> Outcome:
        """Send all rows and the progress in one transaction, unless that was done before."""
        if self.progress is not None and self.progress.batch_id >= share.batch_id:
            return self._pass_over(share, self.progress, rows)
        assert self._sender is not None, "it was initialised"
        steps.reached(Step.READY)
        self._began_at, self._is_open = time.monotonic(), True
        row_count = self._sender.send(rows, layout)
        steps.reached(Step.SENT)
        progress = Progress(share.batch_id, row_count)
        self._group.write(self._transaction, progress)
        steps.reached(Step.MARKED)
        self._sender.flush()
        self._transaction.end(commit=True)
        self.progress, self._is_open, self.is_new = progress, False, False
        steps.reached(Step.PUBLISHED)
        return Outcome(row_count)

    def _pass_over(self, share: Share, progress: Progress, rows: ShareRows) -> Outcome:
        """A share that was published: only see that it is the same one."""
        if progress.batch_id > share.batch_id:
            raise InvalidRequest(
                f"batch {progress.batch_id} of {share.owner!r} was published already, and this is batch "
                f"{share.batch_id}: was the checkpoint put back? Option 'transactionPrefix' begins anew"
            )
        row_count = sum(batch.num_rows for batch in rows)
        if progress.row_count is not None and progress.row_count != row_count:
            raise InvalidRequest(
                f"batch {share.batch_id} of {share.owner!r} was published by task {share.task} with "
                f"{progress.row_count} row(s), and has {row_count} now: Spark has dealt its rows out in another way. "
                "Run it with as many cores, and over the same files, as before"
            )
        self.is_new = False
        return Outcome(row_count, was_published_before=True)

    def close(self) -> None:
        """Let go of it; what is still open is aborted, here or by the next one of this id."""
        if self._is_open:
            with contextlib.suppress(BarnabasError):
                self._transaction.end(commit=False, patience_s=_ABORT_S)
        self._brokers.close()
        if self._sender is not None:
            self._sender.close()

    def reason(self, error: BarnabasError) -> BarnabasError:
        """What a failure means to a user."""
        if not isinstance(error, TransactionFenced):
            return error
        open_s = time.monotonic() - self._began_at
        timeout_s = self._options.transaction_timeout_ms / 1000
        if self._is_open and open_s >= timeout_s:
            return TransactionTimedOut(
                f"the transaction of {self._id!r} was open for {open_s:.0f} s; the cluster ends it after "
                f"{timeout_s:g} s: see option 'transactionTimeout', or make batches smaller"
            )
        return TransactionFenced(f"another attempt of this task took over the transactional id {self._id!r}")


class KeptProducers:
    """The producers of a worker process, by transactional id and all that they were made from; few are kept."""

    def __init__(self) -> None:
        self._kept: dict[Any, TransactionalProducer] = {}

    def take(self, options: WriteOptions, share: Share) -> TransactionalProducer:
        """A producer that is initialised; it is the caller's until it is put back."""
        kept = self._kept.pop(_key(options, share), None)
        if kept is not None:
            if kept.is_still_ours():
                return kept
            kept.close()
        ensure_topic(options.settings, options.progress_topic, contact_s=options.contact_s)
        producer = TransactionalProducer(options, share)
        try:
            producer.initialise()
        except BaseException:
            producer.close()
            raise
        return producer

    def put_back(self, options: WriteOptions, share: Share, producer: TransactionalProducer) -> None:
        while len(self._kept) >= _KEPT_PRODUCERS:
            self._kept.pop(next(iter(self._kept))).close()
        self._kept[_key(options, share)] = producer


_producers = KeptProducers()  # of this process
_senders: dict[Any, Sender] = {}  # likewise, at least once


def publish_exactly_once(
    options: WriteOptions, layout: Layout, share: Share, rows: ShareRows, *, keep: bool
) -> Outcome:
    """Publish a share unless it was; `keep` its producer for a later batch of the same task."""
    for left in reversed(range(_ATTEMPTS)):
        steps.reached(Step.STARTED)
        producer = _producers.take(options, share)
        try:
            outcome = producer.publish(share, layout, rows)
        except _BEGIN_ANEW as error:
            producer.close()
            refusal = producer.reason(error)
            # One that was made for this share was taken over from now, by a later attempt; an old one was before.
            is_superseded = isinstance(refusal, (TransactionFenced, TransactionTimedOut)) and producer.is_new
            if is_superseded or not rows.can_repeat or not left:
                raise refusal from None
        except BaseException:
            producer.close()
            raise
        else:
            if keep and producer.can_go_on:
                _producers.put_back(options, share, producer)
            else:
                producer.close()
            return outcome
    raise AssertionError("the last attempt returns or raises")


def publish_at_least_once(options: WriteOptions, layout: Layout, rows: ShareRows) -> Outcome:
    """Send all rows and wait until they are acknowledged; a share that is run again is sent again."""
    key = _settings_key(options)
    sender = _senders.pop(key, None) or _new_sender(options)
    try:
        row_count = sender.send(rows, layout)
        sender.flush()
    except BaseException:
        sender.close()
        raise
    _senders[key] = sender
    return Outcome(row_count)


def _new_sender(options: WriteOptions) -> Sender:
    brokers = Brokers(options.settings)
    try:
        return Sender(brokers, options, new_producer(brokers, options.contact_s), None)
    except BaseException:
        brokers.close()
        raise


def settle(options: WriteOptions, share: Share) -> None:
    """Abort what the task of a job that failed has left open: readers would wait for it."""
    producer = TransactionalProducer(options, share)
    try:
        producer.initialise(options.contact_s)
    finally:
        producer.close()


def _key(options: WriteOptions, share: Share) -> Any:
    return (_settings_key(options), options.progress_topic, share.transactional_id(options.prefix))


def _settings_key(options: WriteOptions) -> Any:
    settings = options.settings
    config = tuple(sorted(settings.config.items()))
    return (settings.bootstrap, settings.client_id, config, options.transaction_timeout_ms, options.contact_s)
