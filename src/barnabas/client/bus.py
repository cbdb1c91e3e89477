"""The bus: topics, sending and reading on one cluster, from one object.

Owns the handles of one cluster and closes them. May be used by several threads at once; each `consume` and `merge` has
its own consumer, to be used by one thread.

A facade: a method for each verb of the client, documented here; those that administer are in `administration`.
"""

import functools
import threading
import uuid
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from barnabas.client import consuming
from barnabas.client.administration import Administration
from barnabas.client.consuming import RecordGetter, Start
from barnabas.client.contact import PATIENCE_S, Contact
from barnabas.client.errors import DeliveryFailed
from barnabas.client.group_reading import MAX_POLL_RECORDS, Mode
from barnabas.client.message import HeadersLike, Message
from barnabas.client.partitioning import RoundRobin
from barnabas.client.processing import (
    BATCH_SIZE,
    MAX_WAIT_S,
    NAMELESS_TIMEOUT_S,
    AtLeastOnce,
    BatchDelivery,
    ExactlyOnce,
    Function,
    Processed,
    Processor,
)
from barnabas.client.producers import (
    ANY_PARTITION,
    DEFAULTS,
    DeliveringProducer,
    Delivery,
    Producers,
    Sent,
    settings_for,
)
from barnabas.client.readers import Readers, Reading, iterate
from barnabas.client.rewindable import TransactionalReader
from barnabas.client.settings import Consistency, Isolation, Settings, default_bootstrap
from barnabas.client.topics import LATEST, TIMEOUT_S, TopicInfo
from barnabas.client.transactions import TIMEOUT_S as TRANSACTION_TIMEOUT_S
from barnabas.client.transactions import Transaction, TransactionalProducers
from barnabas.core.errors import BarnabasError, InvalidRequest

if TYPE_CHECKING:
    from barnabas.client.queues.admin import QueueAdmin
    from barnabas.client.queues.job import Job
    from barnabas.client.queues.queue import AckMode, Queue

Partitioner: TypeAlias = Literal["murmur2", "round-robin"]

_DELIVERY_SETTING: Final = "delivery.semantics"
_DELIVERY_LOOKUP_S: Final = 5.0
_CLOSE_S: Final = 30.0


class Bus(Administration):
    """A message bus at `bootstrap` (default: BARNABAS_BOOTSTRAP, or this machine).

    `config` is for librdkafka's own settings (TLS, SASL, timeouts, compression). `delivery` overrides the
    `delivery.semantics` of topics. Close it, or use it in a `with`: that delivers what was sent.

    The first call that needs a broker raises `Unreachable` if none answers within `connect_timeout` seconds. Once one
    has answered, calls are patient for `timeout` seconds, and records that were sent wait for a broker that restarts.
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        client_id: str = "barnabas",
        config: Mapping[str, str] | None = None,
        partitioner: Partitioner = "murmur2",
        delivery: Delivery | str | None = None,
        timeout: float = TIMEOUT_S,
        connect_timeout: float = PATIENCE_S,
    ) -> None:
        settings = Settings(bootstrap or default_bootstrap(), client_id, dict(config or {}))
        super().__init__(settings, Contact(settings, min(timeout, connect_timeout)), timeout)
        self._partitioner = partitioner
        self._delivery = Delivery.parse(delivery) if isinstance(delivery, str) else delivery
        self.readers = Readers(self._settings, self._contact, self._known_topics, timeout)
        self._producers = Producers(self._settings, self._delivery_of, self._known_topics.max_message_bytes)
        self._partition_counts: dict[str, int] = {}
        self._round_robin = RoundRobin(self._partition_count)
        # One record is asked of the leader: another replica may not have it yet.
        self._getter = RecordGetter(self._settings.reading("committed"), self._known_topics)
        self._transactions = TransactionalProducers(self._settings, self._pick_partition, timeout)
        self._queues: weakref.WeakSet[Queue] = weakref.WeakSet()

    @property
    def bootstrap(self) -> str:
        return self._settings.bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DeliveryFailed:
            if error is None:  # else the first failure is the one to see
                raise

    def close(self, timeout: float | None = _CLOSE_S) -> None:
        """Deliver what was sent and close all connections; raises `DeliveryFailed` if something was not delivered."""
        try:
            for queue in list(self._queues):
                queue.close()
            self._producers.close(timeout)
        finally:
            self._transactions.close()
            self._getter.close()

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> TopicInfo:
        """Create a topic; the broker's defaults apply to what is not given."""
        return self._topics.create(
            name, partitions=partitions, replication_factor=replication_factor, config=config, exist_ok=exist_ok
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        self._topics.delete(name)
        self._forget(name)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, `total` in all. Warns (`KeysMove`): keys move."""
        self._topics.add_partitions(name, total)
        self._partition_counts.pop(name, None)

    # Sending

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> Sent:
        """Queue one record, waiting while the queue is full; `result()` of what is returned says where it went.

        Without a `partition`, a key decides, by the hash all clients use; records without a key stay together for
        a moment and then move on, or take the partitions in turn under `partitioner="round-robin"`.
        """
        if partition is None:
            partition = self._pick_partition(topic, partitioner)
        return self._producers.for_topic(topic).send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    def send_nowait(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> Sent | None:
        """As `send`; None, with nothing done, if that would have to wait: for room in the queue, or to look at a topic
        that nothing was sent to yet.
        """
        producer = self._producers.known_for(topic)
        if producer is None:
            return None
        if partition is None:
            partition = self._pick_partition(topic, partitioner)
        return producer.send_nowait(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all is delivered; raises `DeliveryFailed` if something since the last flush was not."""
        self._producers.flush(timeout)

    @property
    def acknowledged_count(self) -> int:
        """How many of the records sent have been acknowledged so far, not counting transactions."""
        return self._producers.acknowledged_count

    # Transactions

    def transaction(
        self, transactional_id: str, *, timeout: float = TRANSACTION_TIMEOUT_S
    ) -> AbstractContextManager[Transaction]:
        """A transaction: what is sent in the block is seen by `read_committed` readers all at once, at its end.

        If the block raises, the transaction is aborted and none of its records are seen. `transactional_id` names the
        producer: opening a transaction of the same id fences the producer before, and aborts its open transaction. The
        cluster ends a transaction that stays open for longer than `timeout` seconds.

        Raises `TransactionAborted` (try again), `TransactionFenced` (another took over), `TransactionTimedOut`, or
        `TransactionInDoubt` (no answer to the commit). The next block of this id starts a new transaction in any case.
        """
        self._contact.make()
        return self._transactions.open(transactional_id, timeout)

    def process(
        self,
        source: str | Iterable[str],
        function: Function,
        sink: str,
        *,
        group: str | None = None,
        exactly_once: bool = True,
        batch_size: int = BATCH_SIZE,
        max_wait: float = MAX_WAIT_S,
        instance: str | None = None,
        stop: threading.Event | None = None,
        until_end: bool = False,
    ) -> Processed:
        """Call `function` with every record of `source`, and send what it returns to `sink`; until `stop` is set, or up
        to the current end (`until_end`).

        It returns None (nothing), bytes or str (a value: the key stays), an `Output`, a `Message`, or a list of these.
        An exception that it raises ends the loop and is raised here; nothing of its batch is written then, and the
        batch is read again the next time. Records come in batches of up to `batch_size`, of what comes within
        `max_wait` seconds.

        `exactly_once`: each batch is one transaction with the group's offsets. A process that is killed at any line and
        started again loses nothing and duplicates nothing, for `read_committed` readers. Otherwise at least once. A
        `sink` with `delivery.semantics=exactly-once` requires it.

        Processes of one `group` share the partitions. `instance` names this process, and must stay the same across
        restarts: it then continues at once. Without it, the others wait about 10 s for the open transaction of a
        process that died.
        """
        if batch_size < 1:
            raise InvalidRequest(f"batch_size is {batch_size}; it must be at least 1")
        sources = [source] if isinstance(source, str) else list(source)
        name = group or f"{'+'.join(sources)}-to-{sink}"
        self._topics.partition_ids(sink)
        ends = None
        if until_end:
            ends = self._topics.offsets_of(consuming.pick_partitions(self._topics, sources, None), LATEST)
        processor = Processor(
            self.readers.rewindable(Reading(topics=sources, max_poll_records=batch_size), name, instance),
            function,
            self._batch_delivery(sink, name, instance, exactly_once=exactly_once),
            batch_size=batch_size,
            max_wait_s=max_wait,
            stop=stop,
            ends=ends,
        )
        return processor.run()

    # Reading

    def consume(  # noqa: PLR0913 - one for each way of reading
        self,
        topics: str | Iterable[str],
        *,
        group: str | None = None,
        mode: Mode = "at-least-once",
        max_poll_records: int = MAX_POLL_RECORDS,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        last: int | None = None,
        until_end: bool = False,
        until_ms: int | None = None,
        max_records: int | None = None,
        timeout: float | None = None,
        isolation: Isolation | None = None,
        consistency: Consistency | None = None,
    ) -> Generator[Message, None, None]:
        """Read records as they arrive, in order within each partition.

        Starts at `offset` (a number, or one per partition), with the first record at or after `timestamp_ms`, or with
        the `last` so many offsets of each partition. Goes on forever, or up to the current end (`until_end`), or up to
        the first record at or after `until_ms`, or for `max_records`, or until no record came for `timeout` seconds.
        Records of aborted and open transactions are left out, unless `isolation` is "read_uncommitted".

        Records come from the leader ("committed"), or with `consistency` "any" from the replica in the same rack as
        this client (its setting `client.rack`, which is then the default), which may be a little behind. With "leader"
        the current end is asked of a leader that is confirmed to lead: nothing acknowledged before is missed.

        In a `group`, consumers share the partitions, and each continues at the committed offsets; `offset` ("earliest"
        or "latest") applies where nothing is committed. A record counts as processed when the next one is requested. At
        least once: processed records are committed before more are read, `max_poll_records` at a time, and at the end.
        At most once: records are committed before they are handed out. Transactional: only `Transaction.commit_offsets`
        commits. Closing it leaves the group at once.
        """
        found = self.readers.open(
            Reading(
                topics=topics,
                group=group,
                mode=mode,
                max_poll_records=max_poll_records,
                partitions=partitions,
                offset=offset,
                timestamp_ms=timestamp_ms,
                last=last,
                until_end=until_end,
                until_ms=until_ms,
                max_records=max_records,
                timeout=timeout,
                isolation=isolation,
                consistency=consistency,
            )
        )
        return found if isinstance(found, TransactionalReader) else iterate(found)

    def get(self, topic: str, partition: int, offset: int, *, isolation: Isolation | None = None) -> Message:
        """One record by its offset; `RecordNotFound` if there is none, or its transaction is aborted or open."""
        consuming.pick_partitions(self._topics, [topic], [partition])
        return self._getter.get(topic, partition, offset, self._timeout, self._settings.isolation(isolation))

    def merge(
        self,
        topics: str | Iterable[str],
        *,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        last: int | None = None,
        until_end: bool = True,
        until_ms: int | None = None,
        timeout: float | None = None,
        isolation: Isolation | None = None,
        consistency: Consistency | None = None,
    ) -> Generator[Message, None, None]:
        """All partitions as one stream by timestamp, ties by partition and offset.

        Exact up to the current end; with `until_end=False` it goes on, in the order of what has arrived. `consistency`
        as for `consume`.
        """
        return self.readers.merge(
            Reading(
                topics=topics,
                partitions=partitions,
                offset=offset,
                timestamp_ms=timestamp_ms,
                last=last,
                until_end=until_end,
                until_ms=until_ms,
                timeout=timeout,
                isolation=isolation,
                consistency=consistency,
            )
        )

    def read_arrow(
        self,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        start: Start = "earliest",
        end: int | Mapping[int, int] | None = None,
        columns: Sequence[str] | None = None,
        isolation: Isolation | None = None,
    ) -> Any:
        """A topic up to its current end, as a `pyarrow.RecordBatchReader` (`read_all()` makes a table).

        Columns: partition, key, value, offset, timestamp, timestamp_type, headers. Needs `barnabas[arrow]`.
        """
        try:
            from barnabas.client import arrow  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise BarnabasError(f"cannot read Arrow: {error}") from error
        level = self._settings.isolation(isolation)
        self._contact.make()
        wanted = arrow.Wanted(topic, partitions, start, end, level)
        return arrow.read_arrow(self._settings, wanted, columns)

    # Queues

    def queue(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        ack: "AckMode" = "batched",
        linger_ms: float = 10.0,
        prefetch: int = 100,
        max_hold: float = 3600.0,
        timeout: float | None = None,
    ) -> "Queue":
        """Topics as a queue, as a member of a share group: each job goes to one of its members.

        `for job in bus.queue("jobs", group="workers"): with job: ...` accepts a job when its block ends and releases it
        if the block raises; `job.reject()` says that it can never be done. Its lock is renewed while the block runs,
        for up to `max_hold` seconds. Ends after `timeout` seconds without a job, or never.

        Acknowledgements are sent together, `linger_ms` after the first: a process that dies before has its job
        delivered again. With `ack="sync"` a block ends when its acknowledgement is durable, and raises `LockLost` if
        that failed. Jobs are fetched ahead no more than were finished in the last second, and at most `prefetch`.
        """
        from barnabas.client.queues.queue import Queue, QueueOptions  # noqa: PLC0415 - brings kio, for few

        options = QueueOptions(ack, linger_ms, prefetch, max_hold, timeout)
        names = [topics] if isinstance(topics, str) else list(topics)
        for name in names:
            self._topics.partition_ids(name)
        queue = Queue(self._settings, names, group, options)
        self._queues.add(queue)
        return queue

    def queue_worker(
        self, topics: str | Iterable[str], *, group: str, workers: int = 1, **options: Any
    ) -> "Callable[[Callable[[Job], object]], Callable[[], int]]":
        """A decorator: the function that it makes of a handler calls it with every job, in `workers` threads, until the
        bus is closed or `timeout` is over. `options` are those of `queue`.
        """

        def decorate(handler: "Callable[[Job], object]") -> Callable[[], int]:
            @functools.wraps(handler)
            def run() -> int:
                return self.queue(topics, group=group, **options).run(handler, workers=workers)

            return run

        return decorate

    @property
    def queues(self) -> "QueueAdmin":
        """The queues of the cluster: `stats`, `starts`, `purge`, and `redrive` of their dead letters."""
        from barnabas.client.queues.admin import QueueAdmin  # noqa: PLC0415 - brings kio, for few

        self._contact.make()
        return QueueAdmin(self._settings, self._known_topics, self._timeout, bus=self, transactions=self._transactions)

    def _batch_delivery(self, sink: str, group: str, instance: str | None, *, exactly_once: bool) -> BatchDelivery:
        delivery = self._delivery_of(sink)
        if not exactly_once:
            if delivery is Delivery.EXACTLY_ONCE:
                raise InvalidRequest(f"topic {sink!r} has {_DELIVERY_SETTING}=exactly-once: use exactly_once=True")
            handle = self._settings.producer(DEFAULTS, settings_for(delivery))
            return AtLeastOnce(DeliveringProducer(handle), sink, self._timeout)
        transactional_id = f"{group}-{instance or uuid.uuid4().hex[:12]}"
        timeout_s = NAMELESS_TIMEOUT_S if instance is None else TRANSACTION_TIMEOUT_S
        return ExactlyOnce(self._transactions, transactional_id, sink, timeout_s)

    def _pick_partition(self, topic: str, partitioner: Partitioner | None = None) -> int:
        in_turn = (partitioner or self._partitioner) == "round-robin"
        return self._round_robin.next_partition(topic) if in_turn else ANY_PARTITION

    def _delivery_of(self, topic: str) -> Delivery | None:
        """The `delivery.semantics` of a topic; read at its first send."""
        self._contact.make()
        if self._delivery is not None:
            return self._delivery
        try:
            text = self._topics.config(topic, timeout_s=_DELIVERY_LOOKUP_S).get(_DELIVERY_SETTING)
        except BarnabasError:  # not there yet, or a cluster without that API: the strict default is right for all
            return None
        return None if text is None else Delivery.parse(text)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            self._partition_counts[topic] = len(self._topics.partition_ids(topic))
        return self._partition_counts[topic]

    def _forget(self, topic: str) -> None:
        self._producers.forget(topic)
        self._partition_counts.pop(topic, None)
