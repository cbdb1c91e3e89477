"""Members of groups of four kinds behind one face: three clients, and librdkafka with both protocols (KIP-848)."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka

from tests.conformance.broker.clients import QUIET, kafka

SESSION_MS: Final = 3000
HEARTBEAT_MS: Final = 200
WAIT_S: Final = 60.0

# For a broker that is to let groups rebalance quickly.
SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}",
)


class Got(NamedTuple):
    partition: int
    offset: int
    value: bytes | None


class Member(Protocol):
    """A consumer in a group, which commits when it is told."""

    def poll(self) -> list[Got]:
        """What came within a moment."""
        ...

    def assignment(self) -> set[int]: ...
    def commit(self) -> None:
        """Commit what was polled."""
        ...

    def committed(self, partition: int) -> int | None: ...
    @property
    def metadata(self) -> Any:
        """What this client's producer commits offsets for the group with."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class LibrdkafkaMember:
    def __init__(self, bootstrap: str, topic: str, group: str, **config: Any) -> None:
        self._topic = topic
        classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        settings: dict[str, Any] = {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({} if config.get("group.protocol") == "consumer" else classic),
            **config,
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe([topic])

    def poll(self) -> list[Got]:
        first = self._consumer.poll(0.1)
        found: list[Any] = [] if first is None else [first, *self._consumer.consume(1000, 0)]
        return [Got(each.partition(), each.offset(), each.value()) for each in found if each.error() is None]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def try_commit(self) -> dict[int, int]:
        """Commit what was polled, and tell what that came to: nothing, when it is somebody else's by now."""
        try:
            done = self._consumer.commit(asynchronous=False) or []
        except confluent_kafka.KafkaException:
            return {}
        return {each.partition: each.offset for each in done if each.error is None and each.offset >= 0}

    def committed(self, partition: int) -> int | None:
        (found,) = self._consumer.committed([confluent_kafka.TopicPartition(self._topic, partition)], WAIT_S)
        return None if found.offset < 0 else found.offset

    @property
    def metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    @property
    def member_id(self) -> str:
        return str(self._consumer.memberid())

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember:
    """Its loop runs in a thread of its own, for it heartbeats there."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._group = group
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer: Any = None
        self._run(self._start(bootstrap, group))

    async def _start(self, bootstrap: str, group: str) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=SESSION_MS,
        )
        await self._consumer.start()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def poll(self) -> list[Got]:
        batches = self._run(self._consumer.getmany(timeout_ms=100))
        return [Got(each.partition, each.offset, each.value) for batch in batches.values() for each in batch]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def committed(self, partition: int) -> int | None:
        found: int | None = self._run(self._consumer.committed(aiokafka.TopicPartition(self._topic, partition)))
        return found

    @property
    def metadata(self) -> Any:
        return self._group  # its producer names neither member nor generation

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class KafkaPythonMember:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reconnect_backoff_max_ms=500,
        )

    def poll(self) -> list[Got]:
        # Not less: an answer to a join that comes after the time is over is lost in the client (kafka-python 3.0.12).
        batches = self._consumer.poll(timeout_ms=1000)
        return [Got(each.partition, each.offset, each.value) for batch in batches.values() for each in batch]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def committed(self, partition: int) -> int | None:
        found: int | None = self._consumer.committed(kafka.TopicPartition(self._topic, partition))
        return found

    @property
    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close()


def _with_consumer_protocol(bootstrap: str, topic: str, group: str) -> Member:
    return LibrdkafkaMember(bootstrap, topic, group, **{"group.protocol": "consumer"})


MEMBERS: Final[Mapping[str, Callable[[str, str, str], Member]]] = {
    "librdkafka": LibrdkafkaMember,
    "librdkafka-848": _with_consumer_protocol,
    "aiokafka": AiokafkaMember,
    "kafka-python": KafkaPythonMember,
}


def poll_until(members: Sequence[Member], is_so: Callable[[], bool], *, what: str, wait_s: float = WAIT_S) -> list[Got]:
    """Poll all members until something is so; what they got meanwhile."""
    got: list[Got] = []
    deadline = time.monotonic() + wait_s
    while not is_so():
        assert time.monotonic() < deadline, f"not in time: {what}; {[member.assignment() for member in members]}"
        for member in members:
            got += member.poll()
    return got


def read_all(member: Member, count: int) -> list[Got]:
    """Poll one member until it has got so many."""
    got: list[Got] = []
    deadline = time.monotonic() + WAIT_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} came in time"
        got += member.poll()
    return got


__all__ = ["MEMBERS", "SETTINGS", "Got", "LibrdkafkaMember", "Member", "closing", "poll_until", "read_all"]
