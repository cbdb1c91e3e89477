"""Topics: creating, describing, altering, truncating and deleting them, through librdkafka's admin client.

Owns the description of a topic. Every call has a deadline; every refusal names the topic.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin

from barnabas.client.asking import Asking
from barnabas.client.errors import Unreachable, Unreadable, translate
from barnabas.core.errors import (
    BarnabasError,
    FencedLeaderEpoch,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    PolicyViolation,
    ReplicaNotAvailable,
    StorageError,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from barnabas.core.model import NO_OFFSET, TopicPartition

TIMEOUT_S: Final = 30.0
_MOVED_S: Final = 0.1
_MOVED: Final = (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    ReplicaNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
"""Refusals that pass: the leader of a partition is another one now, or about to be, or has not heard of it yet."""
_APPEAR_S: Final = 10.0  # how long a new topic may take to be known everywhere
_RETRY_S: Final = 0.05
_DOUBT_S: Final = 1.0  # how long one of several brokers is asked again for a topic that it has not heard of
_LIMIT_S: Final = 3.0
_TRY_S: Final = 5.0

EARLIEST: Final = -2
LATEST: Final = -1

_api: Any = kafka_admin  # its names are not exported the way type checkers ask for


class KeysMove(UserWarning):
    """More partitions: a key's later records may go to another partition than its earlier ones."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic in a listing."""

    name: str
    partition_count: int
    replication_factor: int
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: its replicas, and which offsets it holds (`end_offset` is the next one to be written).

    If these are not available they are -1, and `problem` says why.
    """

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int
    end_offset: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic with its partitions, and the settings that are its own (not the broker's defaults)."""

    name: str
    partitions: tuple[PartitionInfo, ...]
    config: dict[str, str]


class Topics:
    """The topics of one cluster."""

    def __init__(self, admin: kafka_admin.AdminClient, timeout_s: float = TIMEOUT_S) -> None:
        self._admin = admin
        self._timeout_s = timeout_s
        self._asking = Asking(timeout_s)

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> TopicInfo:
        new = _api.NewTopic(
            name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config=dict(config or {}),
        )
        doing = f"create topic {name!r}"
        try:
            self._change(lambda: self._asking.ask(self._admin.create_topics, [new], doing=doing)[name], doing)
        except TopicExists:
            if not exist_ok:
                raise
        return self._wait_until_known(name)

    def delete(self, name: str) -> None:
        doing = f"delete topic {name!r}"
        with _reasons(name, doing):
            try:
                self._change(lambda: self._asking.ask(self._admin.delete_topics, [name], doing=doing)[name], doing)
            except UnknownTopicOrPartition:
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from None

    def list_all(self) -> list[TopicInfo]:
        found = self._metadata(None).topics
        return [_info_of(found[name]) for name in sorted(found)]

    def describe(self, name: str) -> TopicDetails:
        found = self._topic(name)
        ids = sorted(found.partitions)
        keys = [TopicPartition(name, id_) for id_ in ids]
        # librdkafka looks for the leader of a partition without one until its timeout, as fast as it can.
        problems: dict[TopicPartition, BarnabasError] = {
            key: LeaderNotAvailable(f"{key} has no leader: none of its replicas that may lead is running")
            for id_, key in zip(ids, keys, strict=True)
            if found.partitions[id_].leader < 0
        }
        led = [key for key in keys if key not in problems]
        starts = self._offsets_of(led, EARLIEST, committed=True, unreadable=problems)
        ends = self._offsets_of(led, LATEST, committed=False, unreadable=problems)
        partitions = tuple(
            PartitionInfo(
                partition=id_,
                leader=found.partitions[id_].leader,
                replicas=tuple(found.partitions[id_].replicas),
                in_sync=tuple(found.partitions[id_].isrs),
                start_offset=starts.get(key, NO_OFFSET),
                end_offset=ends.get(key, NO_OFFSET),
                problem=str(problems[key]) if key in problems else None,
            )
            for id_, key in zip(ids, keys, strict=True)
        )
        return TopicDetails(name, partitions, self._config_of_known(name))

    def partition_ids(self, name: str) -> list[int]:
        """The partitions of an existing topic."""
        return sorted(self._topic(name).partitions)

    def max_message_bytes(self, name: str) -> int | None:
        """The largest batch that a topic accepts; None if that is not available soon."""
        try:
            return int(self._config_entries(name, _LIMIT_S)["max.message.bytes"].value)
        except (BarnabasError, KeyError, TypeError, ValueError):
            return None

    def config(self, name: str, *, timeout_s: float | None = None) -> dict[str, str]:
        """The settings of the topic itself."""
        entries = self._config_entries(name, timeout_s)
        own = _api.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            entry.name: entry.value
            for entry in entries.values()
            if getattr(entry.source, "value", entry.source) == own and entry.value is not None
        }

    def _config_of_known(self, name: str) -> dict[str, str]:
        """The settings of a topic that one broker knows: another, asked for them, may not have heard of it yet."""
        doubted_until = time.monotonic() + _DOUBT_S
        while True:
            try:
                return self.config(name)
            except UnknownTopicOrPartition:
                if time.monotonic() >= doubted_until:
                    raise
            time.sleep(_RETRY_S)

    def _config_entries(self, name: str, timeout_s: float | None) -> dict[str, Any]:
        doing = f"read the settings of topic {name!r}"
        resource = _api.ConfigResource(_api.ResourceType.TOPIC, name)
        asked = self._asking.ask(self._admin.describe_configs, [resource], doing=doing, timeout_s=timeout_s)
        return self._asking.wait(asked[resource], doing, timeout_s)

    def alter(self, name: str, *, set_: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> None:
        """Set settings of the topic, or reset them to the broker's default."""
        doing = f"alter topic {name!r}"
        changes = [
            _api.ConfigEntry(key, value, incremental_operation=_api.AlterConfigOpType.SET)
            for key, value in (set_ or {}).items()
        ]
        changes += [_api.ConfigEntry(key, None, incremental_operation=_api.AlterConfigOpType.DELETE) for key in unset]
        if not changes:
            return
        resource = _api.ConfigResource(_api.ResourceType.TOPIC, name, incremental_configs=changes)
        alter = self._admin.incremental_alter_configs
        self._change(lambda: self._asking.ask(alter, [resource], doing=doing)[resource], doing)

    def add_partitions(self, name: str, total: int) -> None:
        doing = f"give topic {name!r} {total} partitions"
        warnings.warn(
            f"topic {name!r}: with {total} partitions, keys move: records of one key may now be in two partitions",
            KeysMove,
            stacklevel=3,
        )
        new = _api.NewPartitions(name, total)
        self._change(lambda: self._asking.ask(self._admin.create_partitions, [new], doing=doing)[name], doing)

    def truncate(self, name: str, partition: int | None, before: int | None) -> dict[int, int]:
        """Delete the records before an offset (all, if it is None); returns the new start offset of each partition."""
        doing = f"truncate topic {name!r}"
        ids = self.partition_ids(name) if partition is None else [partition]
        offsets = dict.fromkeys(ids, confluent_kafka.OFFSET_END if before is None else before)
        if partition is None and before is not None:  # one offset for all: what is shorter is emptied
            ends = self.offsets(name, ids, LATEST)
            offsets = {id_: min(before, ends[id_]) for id_ in ids}
        wanted = [confluent_kafka.TopicPartition(name, id_, offset) for id_, offset in offsets.items()]
        with _reasons(name, doing):
            asked = self._asking.ask(self._admin.delete_records, wanted, doing=doing)
            return {key.partition: self._asking.wait(answer, doing).low_watermark for key, answer in asked.items()}

    def offsets(self, name: str, ids: Iterable[int], timestamp_ms: int, *, committed: bool = True) -> dict[int, int]:
        """The offset for a time, or for EARLIEST or LATEST, in each partition; -1 if no record is that new."""
        found = self.offsets_of([TopicPartition(name, id_) for id_ in ids], timestamp_ms, committed=committed)
        return {key.partition: offset for key, offset in found.items()}

    def offsets_of(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int, *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        """As `offsets`, of partitions of any topics; a partition that cannot be read is named in the refusal."""
        unreadable: dict[TopicPartition, BarnabasError] = {}
        found = self._offsets_of(list(partitions), timestamp_ms, committed=committed, unreadable=unreadable)
        for problem in unreadable.values():
            raise problem
        return found

    def _offsets_of(
        self,
        partitions: Sequence[TopicPartition],
        timestamp_ms: int,
        *,
        committed: bool,
        unreadable: dict[TopicPartition, BarnabasError],
    ) -> dict[TopicPartition, int]:
        """The offsets of the partitions that can be read, and the errors of the others. Where the leader has just moved
        it is asked again.
        """
        found: dict[TopicPartition, int] = {}
        left = list(partitions)
        begun = time.monotonic()
        deadline = begun + self._timeout_s
        while left:
            moved = self._ask_offsets(left, timestamp_ms, committed=committed, found=found, unreadable=unreadable)
            if not moved:
                break
            if time.monotonic() >= deadline:
                raise next(iter(moved.values()))
            if any(isinstance(error, UnknownTopicOrPartition) for error in moved.values()):
                deadline = min(deadline, begun + _APPEAR_S)  # there, or not: its leader knows soon
            time.sleep(_MOVED_S)
            left = list(moved)
            for name in {key.topic for key in left}:
                self._topic(name)  # as librdkafka remembers it; refused if it does not exist
        return found

    def _ask_offsets(
        self,
        partitions: Sequence[TopicPartition],
        timestamp_ms: int,
        *,
        committed: bool,
        found: dict[TopicPartition, int],
        unreadable: dict[TopicPartition, BarnabasError],
    ) -> dict[TopicPartition, BarnabasError]:
        """Ask once, and note what was found; returns the partitions whose leaders have moved."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        spec = _spec_of(timestamp_ms)
        wanted = {confluent_kafka.TopicPartition(key.topic, key.partition): spec for key in partitions}
        doing = f"look up offsets of topic {partitions[0].topic!r}"
        asked = self._asking.ask(self._admin.list_offsets, wanted, doing=doing, isolation_level=level)
        moved: dict[TopicPartition, BarnabasError] = {}
        for each, answer in asked.items():
            key = TopicPartition(each.topic, each.partition)
            try:
                offset = self._asking.wait(answer, f"look up offsets of {key}").offset
            except StorageError:
                unreadable[key] = Unreadable(*key)
                continue
            except _MOVED as error:
                moved[key] = error
                continue
            if offset == confluent_kafka.OFFSET_INVALID:  # what librdkafka says when a leader did not answer in time
                unreadable[key] = Unreachable(f"cannot look up offsets of {key}: its leader does not answer")
            else:
                found[key] = offset
        return moved

    def _change(self, ask: "Callable[[], Future[None]]", doing: str) -> None:
        """Have a controller decide something. While there is none librdkafka tries until its time is over, and says
        nothing but that.
        """
        try:
            self._asking.wait(ask(), doing)
        except Unreachable as refusal:
            try:
                self._admin.list_topics(timeout=_LIMIT_S)
            except KafkaException:
                raise refusal from None
            raise Unreachable(
                f"cannot {doing}: brokers answer, but no controller has decided it in time; see 'barnabas cluster "
                "status'"
            ) from None

    def _topic(self, name: str) -> Any:
        """A topic as a broker knows it. One of several may not have heard yet of a topic that another has created."""
        doubted_until = time.monotonic() + _DOUBT_S
        while True:
            answer = self._metadata(name)
            found = answer.topics.get(name)
            if found is not None and found.error is None:
                return found
            if found is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise translate(found.error, f"read topic {name!r}")
            if len(answer.brokers) <= 1 or time.monotonic() >= doubted_until:
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
            time.sleep(_RETRY_S)

    def _metadata(self, name: str | None) -> Any:
        """Ask again before the time is over: librdkafka leaves a request with the broker it chose, though that went."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                return self._admin.list_topics(name, timeout=max(min(left_s, _TRY_S), 0.001))
            except KafkaException as error:
                if left_s > _TRY_S and error.args[0].code() == KafkaError._TIMED_OUT:
                    continue
                raise translate(error, "read the topics" if name is None else f"read topic {name!r}") from None

    def _wait_until_known(self, name: str) -> TopicInfo:
        deadline = time.monotonic() + _APPEAR_S
        while True:
            try:
                return _info_of(self._topic(name))
            except BarnabasError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)  # this broker has not heard of it yet


def _info_of(found: Any) -> TopicInfo:
    factors = [len(partition.replicas) for partition in found.partitions.values()]
    return TopicInfo(
        name=found.topic,
        partition_count=len(found.partitions),
        replication_factor=max(factors, default=0),
        is_internal=found.topic.startswith("__"),
    )


def _spec_of(timestamp_ms: int) -> Any:
    if timestamp_ms == EARLIEST:
        return _api.OffsetSpec.earliest()
    if timestamp_ms == LATEST:
        return _api.OffsetSpec.latest()
    return _api.OffsetSpec.for_timestamp(timestamp_ms)


@contextmanager
def _reasons(name: str, doing: str) -> Iterator[None]:
    """Explain why internal topics are refused: librdkafka uses API versions that return a code without a message."""
    try:
        yield
    except (InvalidTopic, PolicyViolation) as refusal:
        if not name.startswith("__"):
            raise
        way = "; to allow it, start the broker with internal.topics.alter.enable=true"
        raise type(refusal)(
            f"cannot {doing}: the broker keeps its groups or transactions in it"
            f"{way if isinstance(refusal, PolicyViolation) else ', and no setting allows that'}"
        ) from refusal
