"""A follower's fetch session: what each fetch looks at, and that nothing is missed by what is not looked at."""

import asyncio

import pytest

from barnabas.core.errors import BarnabasError, FencedLeaderEpoch, TopicAuthorizationFailed, UnknownTopicOrPartition
from barnabas.core.fetched import FetchPartition, FetchRequest
from barnabas.services.delete_records import delete_records
from barnabas.services.fetch import Fetch, Found
from barnabas.services.fetch_in_turns import FetchInTurns
from barnabas.services.fetch_round import MAX_AT_ONCE, FetchRound
from barnabas.services.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from barnabas.services.long_poll import LongPoll
from tests.support.ports import InPlace
from tests.unit.services.round_world import CLIENT, SYNCED, EnoughRoom, NothingOn, RoundWorld, run

FOLLOWER = 2
BROKER_EPOCH = 7
MANY = 100
WAIT_MS = 500


class CountingFetch(Fetch):
    """Knows which partitions were looked at."""

    def __init__(self) -> None:
        super().__init__(InPlace())
        self.looked_at: list[int] = []

    def look_for_replica(self, partition, wanted, replica, **options):  # type: ignore[no-untyped-def]
        self.looked_at.append(wanted.partition)
        return super().look_for_replica(partition, wanted, replica, **options)


class Follower:
    """Fetches as the only other replica of a topic, in one session."""

    def __init__(self, world: RoundWorld, partitions: int, *, name: str = "t") -> None:
        self.world = world
        self.fetch = CountingFetch()
        world.fetches.fetch = self.fetch
        self.topic_id = world.create(name, partitions, SYNCED)
        world.replicate(name, partitions)
        self.session = (NO_SESSION, INITIAL_EPOCH)
        self.all = dict.fromkeys(range(partitions), 0)
        self.broker_epoch = BROKER_EPOCH
        self.told: dict[int, Found | BarnabasError] = {}

    def request(
        self, ends: dict[int, int], *, start: int = 0, min_bytes: int = 1, max_bytes: int = 10**6
    ) -> FetchRequest:
        wanted = [
            FetchPartition(each, 0, end, max_bytes=10**6, flushed_offset=end, log_start_offset=start)
            for each, end in ends.items()
        ]
        return FetchRequest(
            WAIT_MS,
            min_bytes,
            max_bytes,
            0,
            FOLLOWER,
            *self.session,
            [(self.topic_id, wanted)],
            [],
            True,
            self.broker_epoch,
        )

    def begin(self, ends: dict[int, int], *, start: int = 0, min_bytes: int = 1, max_bytes: int = 10**6) -> FetchRound:
        """Send a request that names these partitions, with the ends of their logs here."""
        self.fetch.looked_at.clear()
        request = self.request(ends, start=start, min_bytes=min_bytes, max_bytes=max_bytes)
        return self.world.fetches.begin(CLIENT, request, EnoughRoom())

    def answer(self, done: FetchRound) -> list[int]:
        """Take the answer; gives the partitions that are told."""
        assert done.read_now()
        self.told = {key.partition: each for key, each in done.found.items() if done.is_told(key, each)}
        self.session = (done.session_id, self.session[1] + 1)
        return sorted(self.told)

    async def poll(self, ends: dict[int, int] | None = None, *, start: int = 0) -> list[int]:
        """Fetch, and wait for the answer."""
        begun = self.begin(ends or {}, start=start)
        if not begun.is_ready:
            await Waiting(begun).over.wait()
        return self.answer(begun)

    async def settle(self) -> None:
        """Name all partitions, and be told all there is to be told."""
        self.answer(self.begin(self.all))
        assert await self.poll() == []

    def found(self, partition: int) -> Found:
        found = self.told[partition]
        assert isinstance(found, Found)
        return found


class Waiting:
    """A request that waits."""

    def __init__(self, begun: FetchRound) -> None:
        self.over = asyncio.Event()
        self.poll = LongPoll(begun, self.over.set)


def test_a_fetch_looks_at_nothing_when_nothing_has_changed() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        assert follower.answer(follower.begin(follower.all)) == list(range(MANY))
        assert len(follower.fetch.looked_at) == MANY
        for _ in range(3):
            assert await follower.poll() == []
            assert follower.fetch.looked_at == []

    run(scenario)


def test_a_wake_up_looks_only_at_the_partition_that_grew() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        waiting = Waiting(begun := follower.begin({}))
        size = world.write("t", b"a", partition=7)
        await waiting.over.wait()
        assert follower.fetch.looked_at == [7]
        assert follower.answer(begun) == [7]
        assert len(follower.found(7).records) == size
        waiting = Waiting(begun := follower.begin({7: 1}))  # and one that it names
        world.write("t", b"b", partition=8)
        await waiting.over.wait()
        assert follower.fetch.looked_at == [7, 8]
        assert follower.answer(begun) == [8]

    run(scenario)


def test_a_consumer_that_waits_looks_only_at_the_partition_that_grew() -> None:
    async def scenario(world: RoundWorld) -> None:
        looked_at: list[int] = []

        class Counting(Fetch):
            def look(self, partition, wanted, **options):  # type: ignore[no-untyped-def]
                looked_at.append(wanted.partition)
                return super().look(partition, wanted, **options)

        world.fetches.fetch = Counting(InPlace())
        world.create("t", MANY)
        wanted = [FetchPartition(each, max_bytes=100) for each in range(MANY)]
        request = FetchRequest(WAIT_MS, 1, 1000, 0, -1, NO_SESSION, -1, [("t", wanted)], [])
        begun = world.fetches.begin(CLIENT, request, EnoughRoom())
        assert len(looked_at) == MANY
        waiting = Waiting(begun)
        world.write("t", b"a", partition=3)
        await waiting.over.wait()
        assert looked_at[MANY:] == [3]

    run(scenario)


def test_a_high_watermark_that_moves_while_a_partition_rests_is_told_with_the_next_answer() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        world.write("t", b"a", partition=7)
        assert await follower.poll() == [7]
        assert await follower.poll({7: 1}) == []  # it rests: the follower has everything, the leader's disk has not
        waiting = Waiting(begun := follower.begin({}))
        world.sync("t", 7)
        await waiting.over.wait()
        assert follower.fetch.looked_at == [7]
        assert follower.answer(begun) == [7]
        assert follower.found(7).high_watermark == 1
        assert await follower.poll() == []

    run(scenario)


def test_records_wake_a_fetch_up_in_a_partition_whose_watermark_has_moved_before() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 2)
        await follower.settle()
        world.write("t", b"a")
        await follower.poll()
        await follower.poll({0: 1})
        waiting = Waiting(begun := follower.begin({}))
        world.sync("t")
        size = world.write("t", b"b")
        await asyncio.wait_for(waiting.over.wait(), WAIT_MS / 2000)
        assert follower.answer(begun) == [0]
        assert len(follower.found(0).records) == size

    run(scenario)


def test_a_log_that_starts_later_is_told() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        world.write("t", b"a", partition=7)
        await follower.poll()
        world.sync("t", 7)
        assert await follower.poll({7: 1}) == [7]  # the high watermark
        assert await follower.poll() == []
        logs = world.partition("t", 7)._logs
        await delete_records(logs, world.served.get("t"), world.partition("t", 7), 1)
        assert await follower.poll() == [7]
        assert follower.found(7).log_start_offset == 1
        assert await follower.poll({7: 1}, start=1) == []

    run(scenario)


def test_another_leader_epoch_is_told_at_once() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        waiting = Waiting(begun := follower.begin({}))
        world.replicate("t", 1, leader_epoch=1, partition_epoch=1)
        await asyncio.wait_for(waiting.over.wait(), WAIT_MS / 2000)
        assert follower.answer(begun) == [0]
        assert isinstance(follower.told[0], FencedLeaderEpoch)

    run(scenario)


def test_a_topic_that_is_deleted_is_told_at_once() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 3)
        await follower.settle()
        waiting = Waiting(begun := follower.begin({}))
        for each in range(3):
            world.partition("t", each).delete()
        await asyncio.wait_for(waiting.over.wait(), WAIT_MS / 2000)
        assert follower.answer(begun) == [0, 1, 2]
        assert all(isinstance(each, UnknownTopicOrPartition) for each in follower.told.values())

    run(scenario)


def test_a_follower_that_is_not_in_sync_is_heard_at_each_fetch() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 3)
        await follower.settle()
        world.replicate("t", 1, isr=(1,), partition_epoch=1)
        replicas = world.partition("t")._logs.replicas
        for _ in range(2):
            replicas.doubted.clear()
            assert await follower.poll() == []
            assert follower.fetch.looked_at == [0]
            assert list(replicas.doubted) == [world.partition("t")]

    run(scenario)


def test_what_one_answer_has_no_room_for_is_in_the_next_and_who_was_served_comes_last() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        size = world.write("t", b"a", partition=3)
        world.write("t", b"a", partition=5)
        assert follower.answer(follower.begin({}, max_bytes=size)) == [3]
        world.write("t", b"b", partition=3)
        assert follower.answer(follower.begin({3: 1}, max_bytes=size)) == [5]
        assert follower.answer(follower.begin({5: 1}, max_bytes=size)) == [3]

    run(scenario)


def test_a_follower_is_caught_up_for_as_long_as_it_fetches_though_its_partition_rests() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 1)
        await follower.settle()
        partition = world.partition("t")
        max_lag_s = partition._logs.replicas.max_lag_ms / 1000
        for _ in range(3):
            await asyncio.sleep(max_lag_s / 2)
            await follower.poll()
            assert follower.fetch.looked_at == []
        world.write("t", b"a")  # now it lags, but not for long
        assert partition.propose(now_ms=partition._logs.replicas.now_ms()) is None

    run(scenario)


def test_a_follower_that_stopped_fetching_lags_once_something_is_appended() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 1)
        await follower.settle()
        partition = world.partition("t")
        await asyncio.sleep(partition._logs.replicas.max_lag_ms / 1000 + 1)
        world.write("t", b"a")
        proposal = partition.propose(now_ms=partition._logs.replicas.now_ms())
        assert proposal is not None
        assert [node for node, _ in proposal.isr] == [1]

    run(scenario)


def test_a_follower_that_was_restarted_is_heard_for_all_partitions() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, MANY)
        await follower.settle()
        follower.broker_epoch += 1
        assert await follower.poll() == []
        assert sorted(follower.fetch.looked_at) == list(range(MANY))
        assert await follower.poll() == []
        assert follower.fetch.looked_at == []

    run(scenario)


def test_a_follower_that_may_fetch_no_longer_is_refused_everything() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 3)
        await follower.settle()
        world.access.use(NothingOn("kafka-cluster"))
        assert await follower.poll() == [0, 1, 2]
        assert all(isinstance(each, TopicAuthorizationFailed) for each in follower.told.values())

    run(scenario)


@pytest.mark.parametrize("ending", ["forgotten", "ended", "evicted"])
def test_nothing_waits_for_a_session_that_is_over(ending: str) -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = Follower(world, 3)
        await follower.settle()
        session_id = follower.session[0]
        assert all(world.partition("t", each)._append_waiters for each in range(3))
        if ending == "forgotten":
            request = follower.request({})._replace(forgotten=[(follower.topic_id, [0, 1, 2])])
            world.fetches.begin(CLIENT, request, EnoughRoom())
        elif ending == "ended":
            world.sessions.end(session_id)
        else:
            await asyncio.sleep(1000)
            for _ in range(2):
                follower.session = (NO_SESSION, INITIAL_EPOCH)
                follower.begin(follower.all)
        for each in range(3):
            assert not world.partition("t", each)._append_waiters
            assert not world.partition("t", each)._growth_waiters

    run(scenario)


def test_a_session_with_very_many_partitions_takes_turns_only_when_many_have_changed() -> None:
    async def scenario(world: RoundWorld) -> None:
        number = 3 * MAX_AT_ONCE
        follower = Follower(world, number)
        taking = FetchInTurns(world.fetches, CLIENT, EnoughRoom())
        begun = await taking.begin(follower.request(follower.all))
        taking.hurry()
        await taking.finish(begun)
        assert follower.answer(begun) == list(range(number))
        assert not world.fetches.takes_turns(follower.request({}))
        waiting = Waiting(begun := follower.begin({}))
        for each in range(number):
            world.write("t", b"a", partition=each)
        await waiting.over.wait()
        first = follower.answer(begun)
        assert len(first) == MAX_AT_ONCE * 2  # those that it looked at as it woke up, and once more before its answer
        assert world.fetches.takes_turns(follower.request({}))
        taking = FetchInTurns(world.fetches, CLIENT, EnoughRoom())
        begun = await taking.begin(follower.request(dict.fromkeys(first, 1)))
        await taking.finish(begun)
        assert sorted([*first, *follower.answer(begun)]) == list(range(number))

    run(scenario)


def test_a_request_that_takes_turns_hears_of_partitions_that_rest() -> None:
    async def scenario(world: RoundWorld) -> None:
        number = 2 * MAX_AT_ONCE
        follower = Follower(world, number)
        await follower.settle()
        taking = FetchInTurns(world.fetches, CLIENT, EnoughRoom())
        begun = await taking.begin(follower.request({}))
        finishing = asyncio.ensure_future(taking.finish(begun))
        await asyncio.sleep(WAIT_MS / 4000)
        world.write("t", b"a", partition=7)
        await asyncio.wait_for(finishing, WAIT_MS / 2000)
        assert follower.answer(begun) == [7]
        assert follower.fetch.looked_at == [7]

    run(scenario)
