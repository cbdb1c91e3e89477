"""Fetching from one leader: what is asked when, what a refusal does, and how a session is begun anew."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from barnabas.core.errors import InvalidRequest, PeerUnreachable
from barnabas.runtime.replicating.fetcher import Fetcher
from barnabas.runtime.replicating.session import Self, TopicIdPartition
from barnabas.wire.apis import FETCH
from tests.unit.runtime.replicating.replica_support import FOLLOWER, LEADER, NAME, TOPIC_ID, Side, answer, in_loop

PLACE = TopicIdPartition(TOPIC_ID, NAME.partition)
CONFIG = SimpleNamespace(
    replica_fetch_max_bytes=1_000_000,
    replica_fetch_response_max_bytes=10_000_000,
    replica_fetch_min_bytes=1,
    replica_fetch_wait_max_ms=500,
    replica_fetch_backoff_ms=1000,
    replica_socket_timeout_ms=30_000,
)


class Leaders:
    """The way to one leader: keeps a session, answers with what is new, and waits if there is nothing."""

    def __init__(self, leader: Side) -> None:
        self.leader = leader
        self.asked: list[Any] = []
        self.refusal: BaseException | None = None
        self.error_code = 0
        self.partition_error = 0
        self.session_id = 1
        self._wanted: dict[TopicIdPartition, Any] = {}

    async def ask(
        self, node_id: int, api_key: int, values: Any, *, timeout_s: float, purpose: str, min_version: int = 0
    ) -> Any:
        assert (node_id, purpose, timeout_s) == (LEADER, "replicas", 30.0)
        if self.refusal is not None:
            raise self.refusal
        assert (api_key, min_version) == (FETCH.key, 15)
        self.asked.append(values)
        error_code, self.error_code = self.error_code, 0
        if error_code:
            return SimpleNamespace(error_code=error_code)
        self._note(values)
        found = self._look()
        waits = values["max_wait"] / 1000
        while not found and waits > 0:
            await asyncio.sleep(0.01)
            waits -= 0.01
            found = self._look()
        topics = [SimpleNamespace(topic_id=TOPIC_ID, partitions=found)] if found else []
        return SimpleNamespace(error_code=0, session_id=self.session_id, responses=topics)

    def _note(self, values: Any) -> None:
        if values["session_id"] == 0:
            self._wanted.clear()
        for topic in values["topics"]:
            for each in topic["partitions"]:
                self._wanted[TopicIdPartition(topic["topic_id"], each["partition"])] = each
        for topic in values["forgotten_topics_data"]:
            for each in topic["partitions"]:
                self._wanted.pop(TopicIdPartition(topic["topic_id"], each), None)

    def _look(self) -> list[Any]:
        found = []
        for place, each in self._wanted.items():
            if place != PLACE:
                continue  # there is never anything new in any other
            if self.partition_error:
                found.append(_partition(place.partition, error_code=self.partition_error))
                continue
            asked = SimpleNamespace(
                leader_epoch=each["current_leader_epoch"],
                fetch_offset=each["fetch_offset"],
                last_fetched_epoch=each["last_fetched_epoch"],
                durable_end_offset=each["flushed_offset"],
            )
            sent = answer(self.leader, asked)  # type: ignore[arg-type]
            if sent.records or sent.diverging:
                diverging = sent.diverging or SimpleNamespace(epoch=-1, end_offset=-1)
                found.append(
                    _partition(
                        place.partition,
                        records=sent.records,
                        high_watermark=sent.high_watermark,
                        log_start_offset=sent.log_start_offset,
                        diverging_epoch=diverging,
                    )
                )
        return found


def _partition(index: int, **more: Any) -> Any:
    fields = {
        "partition_index": index,
        "error_code": 0,
        "records": b"",
        "high_watermark": -1,
        "log_start_offset": -1,
        "diverging_epoch": SimpleNamespace(epoch=-1, end_offset=-1),
    }
    return SimpleNamespace(**(fields | more))


class World:
    """A follower whose fetcher runs."""

    def __init__(self, *, is_flushing: bool = True) -> None:
        """`is_flushing`: whether the follower syncs what it has fetched by itself."""
        self.leader, self.follower = Side(LEADER), Side(FOLLOWER)
        self.leader.lead()
        self.brokers = Leaders(self.leader)
        self.epoch = 50
        self.fetcher = Fetcher(LEADER, self.brokers, CONFIG, lambda: Self(FOLLOWER, self.epoch))
        self.fetcher.follow(PLACE, self.follower.follow(LEADER))
        self._tasks = [
            asyncio.get_running_loop().create_task(each)
            for each in (
                self.fetcher.run(),
                self.leader.logs.flusher.run(),
                *([self.follower.logs.flusher.run()] if is_flushing else []),
            )
        ]

    async def __aenter__(self) -> "World":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, *values: bytes) -> None:
        """Return when the follower has these."""
        async with asyncio.timeout(60):
            while self.follower.values != list(values):  # noqa: ASYNC110 - in virtual time, which costs nothing
                await asyncio.sleep(0.01)

    async def until_acked(self, end_offset: int) -> None:
        async with asyncio.timeout(60):
            while self.leader.partition.high_watermark < end_offset:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)


def test_what_is_appended_is_fetched_and_acknowledged_when_both_have_synced_it() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until(b"a")
            await world.until_acked(1)
            world.leader.append(b"b", b"c")
            await world.until(b"a", b"b", b"c")
            await world.until_acked(3)

    in_loop(scenario)


def test_a_leader_without_news_has_one_request_waiting() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until_acked(1)
            before = len(world.brokers.asked)
            await asyncio.sleep(5)
            assert len(world.brokers.asked) - before <= 11
            assert all(not values["topics"] for values in world.brokers.asked[before + 1 :])

    in_loop(scenario)


def test_a_request_does_not_wait_while_something_is_being_synced() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until_acked(1)
            unsynced = [
                values
                for values in world.brokers.asked
                for topic in values["topics"]
                for each in topic["partitions"]
                if each["flushed_offset"] < each["fetch_offset"]
            ]
            assert all(values["max_wait"] == 0 for values in unsynced)

    in_loop(scenario)


def test_a_change_of_the_metadata_that_leaves_the_leader_disturbs_nothing() -> None:
    """Every record about a partition has it followed again, also while what was fetched is being synced."""

    async def scenario() -> None:
        async with World(is_flushing=False) as world:
            following = world.follower.partition.following
            assert following is not None
            world.leader.append(b"a")
            await world.until(b"a")
            assert following.is_unsynced
            world.fetcher.follow(PLACE, following)
            await asyncio.sleep(0.2)
            world.follower.flush()
            before = asyncio.get_running_loop().time()
            await world.until_acked(1)
            assert asyncio.get_running_loop().time() - before < 0.1, "the leader heard of it by chance"

    in_loop(scenario)


def test_a_sync_that_ends_while_a_partition_rests_is_told_afterwards() -> None:
    async def scenario() -> None:
        async with World(is_flushing=False) as world:
            world.leader.append(b"a")
            await world.until(b"a")
            world.brokers.partition_error = 9
            await asyncio.sleep(0.6)
            world.brokers.partition_error = 0
            world.follower.flush()
            await world.until_acked(1)

    in_loop(scenario)


def test_a_leader_that_cannot_be_reached_is_told_everything_when_it_can() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until_acked(1)
            world.brokers.refusal = PeerUnreachable("gone")
            await asyncio.sleep(3)
            world.brokers.refusal = None
            world.leader.append(b"b")
            await world.until(b"a", b"b")
            first = next(values for values in reversed(world.brokers.asked) if values["session_id"] == 0)
            assert first["topics"]

    in_loop(scenario)


def test_a_refusal_of_any_kind_ends_nothing() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.brokers.refusal = InvalidRequest("a request of too many bytes")
            await asyncio.sleep(3)
            world.brokers.refusal = None
            world.leader.append(b"a")
            await world.until(b"a")

    in_loop(scenario)


def test_a_session_that_the_leader_has_forgotten_is_begun_anew() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until_acked(1)
            world.brokers.error_code = 70
            world.leader.append(b"b")
            await world.until(b"a", b"b")

    in_loop(scenario)


def test_a_leader_that_keeps_no_session_is_told_everything_each_time() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.brokers.session_id = 0
            world.leader.append(b"a")
            await world.until(b"a")
            world.leader.append(b"b")
            await world.until(b"a", b"b")
            await world.until_acked(2)
            assert all(values["session_id"] == 0 for values in world.brokers.asked)

    in_loop(scenario)


def test_a_partition_that_is_refused_is_asked_for_again_after_a_pause() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.brokers.partition_error = 9
            await asyncio.sleep(3.5)
            refused = len([values for values in world.brokers.asked if values["topics"]])
            assert refused <= 5
            world.brokers.partition_error = 0
            world.leader.append(b"a")
            await world.until(b"a")

    in_loop(scenario)


def test_a_new_registration_begins_a_new_session() -> None:
    async def scenario() -> None:
        async with World() as world:
            world.leader.append(b"a")
            await world.until_acked(1)
            world.epoch = 51
            world.leader.append(b"b")
            await world.until(b"a", b"b")
            await asyncio.sleep(1)
            assert {values["replica_state"]["replica_epoch"] for values in world.brokers.asked} == {50, 51}
            later = [values for values in world.brokers.asked if values["replica_state"]["replica_epoch"] == 51]
            assert later[0]["session_id"] == 0

    in_loop(scenario)


def test_what_is_left_is_forgotten_and_no_longer_changed() -> None:
    async def scenario() -> None:
        async with World() as world:
            other = TopicIdPartition(UUID(int=8), 0)
            side = Side(FOLLOWER)
            world.fetcher.follow(other, side.follow(LEADER))
            await asyncio.sleep(1)
            world.fetcher.leave(PLACE)
            world.leader.append(b"a")
            await asyncio.sleep(2)
            assert world.follower.values == []
            forgotten = [topic for values in world.brokers.asked for topic in values["forgotten_topics_data"]]
            assert forgotten == [{"topic_id": TOPIC_ID, "partitions": [0]}]

    in_loop(scenario)


def test_a_sync_is_told_though_the_metadata_of_the_partition_changed_meanwhile() -> None:
    async def scenario() -> None:
        async with World(is_flushing=False) as world:
            world.leader.append(b"a")
            await world.until(b"a")

            world.fetcher.follow(PLACE, world.follower.follow(LEADER))  # another ISR, in the same leader epoch
            await asyncio.sleep(2)
            world.follower.flush()

            await world.until_acked(1)

    in_loop(scenario)


def test_a_sync_that_began_under_the_leader_before_is_told_the_next_one() -> None:
    async def scenario() -> None:
        async with World(is_flushing=False) as world:
            world.leader.append(b"a")
            await world.until(b"a")

            world.leader.lead(1)
            world.fetcher.follow(PLACE, world.follower.follow(LEADER, 1))
            await asyncio.sleep(2)
            world.follower.flush()

            await world.until_acked(1)

    in_loop(scenario)


def test_a_sync_that_outlasts_the_pause_after_a_refusal_is_told() -> None:
    async def scenario() -> None:
        async with World(is_flushing=False) as world:
            world.leader.append(b"a")
            await world.until(b"a")
            world.brokers.partition_error = 5
            await asyncio.sleep(1)
            world.brokers.partition_error = 0
            await asyncio.sleep(2)

            world.follower.flush()

            await world.until_acked(1)

    in_loop(scenario)
