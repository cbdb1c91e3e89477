"""Publishing a share exactly once, or at least once.

Exactly once: the share is one transaction, whose id is the same for every attempt, together with the progress of its
task. Initialising a producer ends what an attempt before had left open, one way or the other; the progress then says
whether the share was published. So after any failure there is one thing to do: begin anew with a new producer.

Two attempts at once: the later to initialise wins, the other one's transaction is aborted, and its task fails. A
producer is kept for the next batch of its task; should another process have taken over in between, which the progress
tells, or librdkafka at the latest, that is no failure, and a new one is made.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from barnabas.client.errors import TransactionFenced, TransactionTimedOut, translate
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.options import WriteOptions
from barnabas.spark.sink.progress import ProgressGroup, ensure_topic
from barnabas.spark.sink.sending import DEFAULTS, FORCED, Sender
from barnabas.spark.sink.shares import Progress, Share, ShareRows
from barnabas.spark.sink.steps import Step

PATIENCE_S: Final = 60.0
KEPT_BYTES: Final = 64 * 1024 * 1024  # of a share, to begin anew with; a larger one is Spark's to run again
_ATTEMPTS: Final = 3
_ABORT_S: Final = 10.0
_RETRY_S: Final = 0.05
_PURGED_S: Final = 5.0
_KEPT_PRODUCERS: Final = 16
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a share."""

    row_count: int
    was_published_before: bool = False


class TransactionalProducer:
    """The producer of a task's transactions, one for each batch."""

    def __init__(self, options: WriteOptions, share: Share) -> None:
        self._id = share.transactional_id(options.prefix)
        self._timeout_s = options.transaction_timeout_ms / 1000
        forced = {
            **FORCED,
            "transactional.id": self._id,
            "transaction.timeout.ms": str(options.transaction_timeout_ms),
        }
        defaults = {**DEFAULTS, "message.timeout.ms": str(min(120_000, options.transaction_timeout_ms))}
        self._handle = options.settings.producer(defaults, forced)
        self._sender = Sender(self._handle, contact_s=options.contact_s, is_transactional=True)
        self._group = ProgressGroup(options.settings, share, prefix=options.prefix, topic=options.progress_topic)
        self._began_at = 0.0
        self._is_open = False
        self.progress: Progress | None = None
        self.is_new = True

    def initialise(self, patience_s: float = PATIENCE_S) -> None:
        """Take the transactional id over, and see how far its shares are published."""
        self._retrying(self._handle.init_transactions, patience_s=patience_s)
        self.progress = self._group.read(patience_s)

    def is_still_ours(self) -> bool:
        """Whether nobody else published a share of this task since."""
        return self._group.read(PATIENCE_S) == self.progress

    def publish(self, share: Share, layout: Layout, rows: ShareRows) -> Outcome:
        """Send all rows and the progress in one transaction, unless that was done before."""
        if self.progress is not None and self.progress.batch_id >= share.batch_id:
            return self._pass_over(share, self.progress, rows)
        steps.reached(Step.READY)
        self._began_at, self._is_open = time.monotonic(), True
        self._handle.begin_transaction()
        row_count = 0
        for batch in rows:
            self._sender.send(batch, layout)
            row_count += batch.num_rows
        steps.reached(Step.SENT)
        progress = Progress(share.batch_id, row_count)
        self._retrying(self._handle.send_offsets_to_transaction, self._group.offsets(progress), self._group.metadata)
        steps.reached(Step.MARKED)
        self._handle.flush(self._timeout_s)
        self._retrying(self._handle.commit_transaction)
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
            with contextlib.suppress(KafkaException):
                self._handle.abort_transaction(_ABORT_S)
        with contextlib.suppress(KafkaException):  # one that was fenced can do no more, not even end well
            self._handle.purge()
            self._handle.flush(_PURGED_S)
        self._group.close()

    def refusal(self, error: KafkaException) -> BarnabasError:
        """What a failure means to a user."""
        reason: KafkaError = error.args[0]
        if reason.code() not in _FENCED:
            return translate(error, f"publish rows in a transaction of {self._id!r}")
        open_s = time.monotonic() - self._began_at
        if self._is_open and open_s >= self._timeout_s:
            return TransactionTimedOut(
                f"the transaction of {self._id!r} was open for {open_s:.0f} s; the cluster ends it after "
                f"{self._timeout_s:g} s: see option 'transactionTimeout', or make batches smaller"
            )
        return TransactionFenced(f"another attempt of this task took over the transactional id {self._id!r}")

    def _retrying(self, call: Callable[..., None], *arguments: Any, patience_s: float = PATIENCE_S) -> None:
        """Call until it is answered; a failure that may pass is tried again, as librdkafka asks for."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                call(*arguments, max(deadline - time.monotonic(), 0.1))
                return
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if not error.retriable() or error.txn_requires_abort() or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)


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
        except KafkaException as error:
            producer.close()
            raise producer.refusal(error) from None
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
        except KafkaException as error:
            producer.close()
            refusal = producer.refusal(error)
            # One that was made for this share was taken over from now, by a later attempt; an old one was before.
            is_superseded = isinstance(refusal, (TransactionFenced, TransactionTimedOut)) and producer.is_new
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
            return outcome
    raise AssertionError("the last attempt returns or raises")


def publish_at_least_once(options: WriteOptions, layout: Layout, rows: ShareRows) -> Outcome:
    """Send all rows and wait until they are acknowledged; a share that is run again is sent again."""
    key = _settings_key(options)
    sender = _senders.pop(key, None)
    if sender is None:
        handle = options.settings.producer(DEFAULTS, FORCED)
        sender = Sender(handle, contact_s=options.contact_s, is_transactional=False)
    row_count = 0
    try:
        for batch in rows:
            sender.send(batch, layout)
            row_count += batch.num_rows
        sender.flush(PATIENCE_S * 5)
    except KafkaException as error:
        raise translate(error, "send rows") from None
    _senders[key] = sender  # one that failed is not used again
    return Outcome(row_count)


def settle(options: WriteOptions, share: Share) -> None:
    """Abort what the task of a job that failed has left open: readers would wait for it."""
    producer = TransactionalProducer(options, share)
    try:
        producer.initialise(options.contact_s)
    except KafkaException as error:
        raise producer.refusal(error) from None
    finally:
        producer.close()


def _key(options: WriteOptions, share: Share) -> Any:
    return (_settings_key(options), options.progress_topic, share.transactional_id(options.prefix))


def _settings_key(options: WriteOptions) -> Any:
    settings = options.settings
    config = tuple(sorted(settings.config.items()))
    return (settings.bootstrap, settings.client_id, config, options.transaction_timeout_ms)
