"""The bus: topics, sending and reading on one cluster, from one object.

Owns the handles of one cluster and closes them. May be used by several threads at once; each `consume` and `merge`
has a consumer of its own, to be used by one thread.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from barnabas.client import consuming
from barnabas.client.consuming import RecordGetter, Start
from barnabas.client.errors import DeliveryFailed
from barnabas.client.group_reading import MAX_POLL_RECORDS, MODES, GroupReader, Mode, read_group
from barnabas.client.groups import GroupDetails, GroupInfo, Groups, OffsetChange, To
from barnabas.client.merging import merge_records
from barnabas.client.message import HeadersLike, Message
from barnabas.client.partitioning import RoundRobin
from barnabas.client.producers import ANY_PARTITION, Delivery, Producers, Sent
from barnabas.client.settings import Settings, default_bootstrap
from barnabas.client.topics import LATEST, TIMEOUT_S, TopicDetails, TopicInfo, Topics
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.model import TopicPartition

Partitioner: TypeAlias = Literal["murmur2", "round-robin"]

_DELIVERY_SETTING: Final = "delivery.semantics"
_DELIVERY_LOOKUP_S: Final = 5.0
_CLOSE_S: Final = 30.0


class Bus:
    """A message bus at `bootstrap` (else in BARNABAS_BOOTSTRAP, else on this machine).

    `config` is for librdkafka's own settings (TLS, SASL, timeouts, compression). `delivery` overrides what topics say
    about theirs. Close it, or use it in a `with`: that delivers what was sent.
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
    ) -> None:
        self._settings = Settings(bootstrap or default_bootstrap(), client_id, dict(config or {}))
        self._partitioner = partitioner
        self._delivery = Delivery.parse(delivery) if isinstance(delivery, str) else delivery
        self._timeout = timeout
        admin = self._settings.admin()
        self._topics = Topics(admin, timeout)
        self._producers = Producers(self._settings, self._delivery_of)
        self._partition_counts: dict[str, int] = {}
        self._round_robin = RoundRobin(self._partition_count)
        self._getter = RecordGetter(self._settings)
        self._groups = Groups(admin, self._topics, self._getter, timeout)

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
        """Deliver what was sent and let go of everything; raises `DeliveryFailed` if something was not delivered."""
        try:
            self._producers.close(timeout)
        finally:
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
        """Make a topic; what is not given is the broker's default."""
        return self._topics.create(
            name, partitions=partitions, replication_factor=replication_factor, config=config, exist_ok=exist_ok
        )

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its records."""
        self._topics.delete(name)
        self._forget(name)

    def list_topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        return self._topics.list_all()

    def describe_topic(self, name: str) -> TopicDetails:
        """A topic's partitions with their offsets, and the settings of its own."""
        return self._topics.describe(name)

    def alter_topic(self, name: str, *, set_: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> None:
        """Change a topic's settings; those in `unset` go back to the broker's default."""
        self._topics.alter(name, set_=set_, unset=unset)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, `total` in all. Warns (`KeysMove`): keys move."""
        self._topics.add_partitions(name, total)
        self._partition_counts.pop(name, None)

    def truncate(self, topic: str, partition: int | None = None, *, before: int | None = None) -> dict[int, int]:
        """Remove the records before an offset, all of them if it is None; gives each partition's new start."""
        return self._topics.truncate(topic, partition, before)

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
            in_turn = (partitioner or self._partitioner) == "round-robin"
            partition = self._round_robin.next_partition(topic) if in_turn else ANY_PARTITION
        return self._producers.for_topic(topic).send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all is delivered; raises `DeliveryFailed` if something since the last flush was not."""
        self._producers.flush(timeout)

    # Reading

    def consume(
        self,
        topics: str | Iterable[str],
        *,
        group: str | None = None,
        mode: Mode = "at-least-once",
        max_poll_records: int = MAX_POLL_RECORDS,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        until_end: bool = False,
        max_records: int | None = None,
        timeout: float | None = None,
    ) -> Generator[Message, None, None]:
        """Read records as they come, partition by partition in order.

        Begins at `offset` (a number, or one per partition), or with the first record at or after `timestamp_ms`.
        Goes on for ever, or up to what is there now (`until_end`), or for `max_records`, or until no record came
        for `timeout` seconds.

        In a `group`, consumers share the partitions, and each goes on where the group was; `offset` ("earliest" or
        "latest") is for what the group has never read. A record counts as processed when the next one is asked for.
        At least once: what was processed is committed before more is read, `max_poll_records` at a time, and at the
        end. At most once: records are committed before they are handed out. Close it, and the group hears at once.
        """
        if group is not None:
            if partitions is not None or timestamp_ms is not None or offset not in ("earliest", "latest"):
                raise InvalidRequest("a group says what is read, from where its offsets are: see reset_group")
            join = self._joining(topics, group, mode, str(offset), max_poll_records)
            return read_group(join, until_end=until_end, max_records=max_records, timeout_s=timeout)
        starts, ends = self._plan(topics, partitions, offset, timestamp_ms, until_end=until_end)
        return consuming.read_records(self._settings, starts, ends, max_records=max_records, timeout_s=timeout)

    def get(self, topic: str, partition: int, offset: int) -> Message:
        """One record by its id; `RecordNotFound` if there is none."""
        consuming.pick_partitions(self._topics, [topic], [partition])
        return self._getter.get(topic, partition, offset, self._timeout)

    def merge(
        self,
        topics: str | Iterable[str],
        *,
        partitions: Sequence[int] | None = None,
        offset: Start = "earliest",
        timestamp_ms: int | None = None,
        until_end: bool = True,
        timeout: float | None = None,
    ) -> Generator[Message, None, None]:
        """All partitions as one stream by timestamp, ties by partition and offset.

        Exact up to what is there now; with `until_end=False` it goes on, in order of what has arrived.
        """
        starts, ends = self._plan(topics, partitions, offset, timestamp_ms, until_end=until_end)
        return merge_records(self._settings, starts, ends, timeout_s=timeout)

    def read_arrow(
        self,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        start: Start = "earliest",
        end: int | Mapping[int, int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """A topic up to what is there now, as a `pyarrow.RecordBatchReader` (`read_all()` makes a table).

        Columns: partition, key, value, offset, timestamp, timestamp_type, headers. Needs `barnabas[arrow]`.
        """
        try:
            from barnabas.client import arrow  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise BarnabasError(f"cannot read Arrow: {error}") from error
        return arrow.read_arrow(
            self._settings, self._topics, topic, partitions=partitions, start=start, end=end, columns=columns
        )

    # Groups

    def groups(self) -> list[GroupInfo]:
        """All groups, by name."""
        return self._groups.list_all()

    def describe_group(self, name: str) -> GroupDetails:
        """A group's members, and how far it is behind in each partition: in records, and in seconds."""
        return self._groups.describe(name)

    def reset_group(
        self,
        name: str,
        *,
        to: To | None = None,
        timestamp_ms: int | None = None,
        shift_by: int | None = None,
        topic: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Have a group without members go on from elsewhere: `to` "earliest", "latest" or an offset, the first record
        at or after `timestamp_ms`, or `shift_by` records further. Within what there is. Of `topic`, or of all that it
        has committed for. With `dry_run` nothing is changed; what is returned says what would be.
        """
        topics = [topic] if isinstance(topic, str) else topic
        return self._groups.reset(
            name, to=to, timestamp_ms=timestamp_ms, shift_by=shift_by, topics=topics, dry_run=dry_run
        )

    def delete_group(self, name: str) -> None:
        """Remove a group without members, and its offsets."""
        self._groups.delete(name)

    def _joining(
        self, topics: str | Iterable[str], group: str, mode: Mode, start: str, max_poll_records: int
    ) -> Callable[[], GroupReader]:
        if mode not in MODES:
            raise InvalidRequest(f"mode is {mode!r}; it may be {' or '.join(MODES)}")
        if max_poll_records < 1:
            raise InvalidRequest(f"max_poll_records is {max_poll_records}; it must be at least 1")
        names = [topics] if isinstance(topics, str) else list(topics)
        for name in names:
            if not name.startswith("^"):  # a regular expression
                self._topics.partition_ids(name)
        return lambda: GroupReader(
            self._settings, names, group, mode=mode, start=start, max_poll_records=max_poll_records
        )

    def _plan(
        self,
        topics: str | Iterable[str],
        partitions: Sequence[int] | None,
        offset: Start,
        timestamp_ms: int | None,
        *,
        until_end: bool,
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]:
        """Where to begin, and where to end if there is an end; what does not exist is refused here."""
        names = [topics] if isinstance(topics, str) else list(topics)
        picked = consuming.pick_partitions(self._topics, names, partitions)
        starts = consuming.resolve_start(self._topics, picked, offset, timestamp_ms)
        ends = self._topics.offsets_of(picked, LATEST) if until_end else None
        return starts, ends

    def _delivery_of(self, topic: str) -> Delivery | None:
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
