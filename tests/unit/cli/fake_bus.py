"""A bus in memory for the commands to talk to: topics are lists of records, nothing is on a wire."""

import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from barnabas.client import (
    GroupDetails,
    GroupInfo,
    GroupMember,
    HangingTransaction,
    Job,
    KeysMove,
    Message,
    OffsetChange,
    PartitionInfo,
    PartitionLag,
    RecordNotFound,
    RecordPlace,
    TopicDetails,
    TopicInfo,
    TransactionDetails,
    TransactionInfo,
)
from barnabas.client.queues.admin import QueueStats
from barnabas.client.queues.locks import Ack, Lock, Place
from barnabas.client.queues.redrive import Redriven
from barnabas.core.errors import GroupIdNotFound, TopicExists, TransactionalIdNotFound, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import TimestampType


class FakeSent:
    def __init__(self, place: RecordPlace) -> None:
        self._place = place

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> RecordPlace:
        return self._place


class FakeQueue:
    """Jobs of a list of records; what is said of them is noted by offset."""

    def __init__(self, messages: list[Message], answers: dict[int, Ack]) -> None:
        self._messages = messages
        self._answers = answers

    def note_opened(self, options: dict[str, Any]) -> Self:
        self.options = options
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __iter__(self) -> Iterator[Job]:
        for each in self._messages:
            lock = Lock(Place(UUID(int=1), each.partition), each.offset, 0.0, 0.0, 0.0)
            yield Job(each, 1, lock, self)

    def answer(self, job: Job, lock: Lock, answer: Ack) -> None:
        self._answers[job.offset] = answer


class FakeBus:
    """As much of `barnabas.client.Bus` as the commands use."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, list[Message]]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.asked: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.flush_count = 0
        self.gone_letters = 0
        self.answers: dict[int, Ack] = {}

    def note_opened(self, options: dict[str, Any]) -> Self:
        self.options = options
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> TopicInfo:
        if name in self.logs and not exist_ok:
            raise TopicExists(f"topic {name!r} is there already")
        self.logs.setdefault(name, {id_: [] for id_ in range(partitions or 1)})
        self.configs.setdefault(name, dict(config or {}))
        return self._info(name)

    def delete_topic(self, name: str) -> None:
        self._log(name)
        del self.logs[name]

    def list_topics(self) -> list[TopicInfo]:
        return [self._info(name) for name in sorted(self.logs)]

    def describe_topic(self, name: str) -> TopicDetails:
        partitions = tuple(PartitionInfo(id_, 1, (1, 2), (1,), 0, len(log)) for id_, log in self._log(name).items())
        return TopicDetails(name, partitions, self.configs[name])

    def alter_topic(self, name: str, *, set_: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> None:
        self.configs[name].update(set_ or {})
        for setting in unset:
            self.configs[name].pop(setting, None)

    def add_partitions(self, name: str, total: int) -> None:
        warnings.warn("keys move", KeysMove, stacklevel=2)
        self.logs[name] |= {id_: [] for id_ in range(len(self.logs[name]), total)}

    def truncate(self, topic: str, partition: int | None = None, *, before: int | None = None) -> dict[int, int]:
        ids = self._log(topic) if partition is None else [partition]
        self.asked = {"truncated": topic}
        return {id_: len(self.logs[topic][id_]) if before is None else before for id_ in ids}

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> FakeSent:
        log = self._log(topic)[partition or 0]
        time_ms = len(log) if timestamp_ms is None else timestamp_ms
        record = Message(
            topic, partition or 0, len(log), time_ms, TimestampType.CREATE_TIME, key, value, tuple(headers)
        )
        log.append(record)
        return FakeSent(RecordPlace(topic, record.partition, record.offset, time_ms))

    def flush(self, timeout: float | None = None) -> None:
        self.flush_count += 1

    @property
    def acknowledged_count(self) -> int:
        return sum(len(log) for logs in self.logs.values() for log in logs.values())

    def close(self, timeout: float | None = None) -> None: ...

    def consume(self, topic: str, **asked: Any) -> Generator[Message, None, None]:
        self.asked = asked | {"merge": False}
        return self._read(topic)

    def merge(self, topic: str, **asked: Any) -> Generator[Message, None, None]:
        self.asked = asked | {"merge": True}
        return self._read(topic)

    def groups(self) -> list[GroupInfo]:
        return [GroupInfo("billing", "stable", "classic", is_simple=False)]

    def describe_group(self, name: str) -> GroupDetails:
        self._check_group(name)
        member = GroupMember("m-1", "app", "/10.0.0.1", None, (TopicPartition("orders", 0),))
        lags = (
            PartitionLag("orders", 0, 5, 8, 3, 1.25, "m-1"),
            PartitionLag("orders", 1, None, 8, None, None, None),
        )
        return GroupDetails(name, "stable", "classic", "range", (member,), lags)

    def reset_group(self, name: str, **asked: Any) -> list[OffsetChange]:
        self._check_group(name)
        self.asked = asked
        return [OffsetChange("orders", 0, 5, 0), OffsetChange("orders", 1, None, 0)]

    def delete_group(self, name: str) -> None:
        self._check_group(name)
        self.asked = {"deleted": name}

    def _check_group(self, name: str) -> None:
        if name != "billing":
            raise GroupIdNotFound(f"group {name!r} does not exist")

    def queue(self, topic: str, **asked: Any) -> "FakeQueue":
        self.asked = asked
        return FakeQueue([message for log in self.logs[topic].values() for message in log], self.answers)

    @property
    def queues(self) -> Self:
        return self

    def stats(self, group: str) -> list[QueueStats]:
        self._check_group(group)
        return [
            QueueStats("orders", 0, 5, 8, 2, 1, 0),
            QueueStats("orders", 1, None, 8, None),
            QueueStats("dlq.orders", 0, 2, 7, 5, is_letters=True),
        ]

    def starts(self, group: str, topic: str) -> dict[int, int]:
        found = [each for each in self.stats(group) if not each.is_letters]
        return {each.partition: each.start_offset for each in found if each.start_offset is not None}

    def purge(self, group: str, topic: str) -> dict[int, int]:
        self._check_group(group)
        self.asked = {"purged": (group, topic)}
        return {0: 8, 1: 8}

    def redrive(self, group: str, *, limit: int | None = None, dry_run: bool = False) -> Redriven:
        self._check_group(group)
        self.asked = {"redriven": (group, limit, dry_run)}
        return Redriven("dlq.orders", {"orders": 3, "jobs": 2}, 1, self.gone_letters, 4)

    def transactions(self, **asked: Any) -> list[TransactionInfo]:
        self.asked = asked
        return [TransactionInfo("billing", "Ongoing", 7, 1)]

    def describe_transaction(self, transactional_id: str) -> TransactionDetails:
        self._check_transactional_id(transactional_id)
        if transactional_id == "idle":
            return TransactionDetails("idle", "Empty", 7, 3, 60_000, None, None, (), 1)
        partitions = (TopicPartition("orders", 0),)
        return TransactionDetails(transactional_id, "Ongoing", 7, 3, 60_000, 1000, 12.3, partitions, 1)

    def hanging_transactions(self, topic: str | None = None, *, older_than: float) -> list[HangingTransaction]:
        self.asked = {"topic": topic, "older_than": older_than}
        return [HangingTransaction("orders", 0, 42, 9, 2, -1, 1000.2, None)]

    def abort_transaction(self, transactional_id: str) -> TransactionDetails:
        details = self.describe_transaction(transactional_id)
        self.asked = {"aborted": transactional_id}
        return details

    def abort_hanging_transaction(self, topic: str, partition: int, start_offset: int) -> None:
        self.asked = {"aborted": (topic, partition, start_offset)}

    def _check_transactional_id(self, transactional_id: str) -> None:
        if transactional_id not in ("billing", "idle"):
            raise TransactionalIdNotFound(f"transactional id {transactional_id!r} does not exist")

    def get(self, topic: str, partition: int, offset: int) -> Message:
        log = self._log(topic)[partition]
        if offset >= len(log):
            raise RecordNotFound(f"{topic}-{partition} has no record at offset {offset}")
        return log[offset]

    def _read(self, topic: str) -> Generator[Message, None, None]:
        log = self._log(topic)
        yield from (record for id_ in log for record in log[id_])

    def _log(self, name: str) -> dict[int, list[Message]]:
        if name not in self.logs:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return self.logs[name]

    def _info(self, name: str) -> TopicInfo:
        return TopicInfo(name, len(self.logs[name]), 1, name.startswith("__"))
