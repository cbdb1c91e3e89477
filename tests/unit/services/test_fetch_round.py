"""A whole request to read, with no protocol around it: what is found, when it is ready, how much is read."""

import asyncio
from uuid import UUID

import pytest

from barnabas.core.errors import (
    BarnabasError,
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.fetched import CONSUMER, READ_COMMITTED, FetchPartition, FetchRequest, PartitionKey
from barnabas.services.fetch import Found, UnreadRecords
from barnabas.services.fetch_in_turns import FetchInTurns
from barnabas.services.fetch_round import MAX_AT_ONCE, FetchRound
from barnabas.services.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from barnabas.services.long_poll import LongPoll
from barnabas.services.syncing import SYNC_WAIT_S
from tests.unit.services.round_world import CLIENT, SYNCED, EnoughRoom, NothingOn, RoundWorld, run
from tests.unit.storage.builders import commit, in_transaction

MAX_BYTES = 1_000_000
Wanted = tuple[str | UUID, int, int]  # a topic, a partition, an offset
FIRST = PartitionKey("t", 0)


def wanting(
    *wanted: Wanted,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MAX_BYTES,
    isolation_level: int = 0,
    replica_id: int = CONSUMER,
    session: tuple[int, int] = (NO_SESSION, FINAL_EPOCH),
) -> FetchRequest:
    topics: list[tuple[str | UUID, list[FetchPartition]]] = [
        (topic, [FetchPartition(partition, fetch_offset=offset, max_bytes=MAX_BYTES)])
        for topic, partition, offset in wanted
    ]
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation_level, replica_id, *session, topics, [])


def begin(world: RoundWorld, request: FetchRequest, *, max_read_bytes: int = 2**31) -> FetchRound:
    return world.fetches.begin(CLIENT, request, EnoughRoom(max_read_bytes))


class Polling:
    """Somebody who waits for a round; knows when it was ready."""

    def __init__(self, waiting: FetchRound) -> None:
        self._began_at = asyncio.get_running_loop().time()
        self.ready = asyncio.Event()
        self.after_s = -1.0
        self.times = 0
        self.poll = LongPoll(waiting, self._note)

    def _note(self) -> None:
        self.times += 1
        self.after_s = asyncio.get_running_loop().time() - self._began_at
        self.ready.set()


def located(found: Found | BarnabasError) -> Found:
    assert isinstance(found, Found)
    return found


def size_read(done: FetchRound, key: PartitionKey = FIRST) -> int:
    return len(located(done.found[key]).records)


def refusal(done: FetchRound, key: PartitionKey = FIRST) -> type[BarnabasError]:
    error = done.found[key]
    assert isinstance(error, BarnabasError)
    return type(error)


def test_what_is_there_is_found_and_read_at_once() -> None:
    async def scenario(world: RoundWorld) -> None:
        topic_id = world.create("t")
        size = world.write("t", b"a", b"b")
        for topic in ("t", topic_id):
            done = begin(world, wanting((topic, 0, 0), max_wait_ms=1000))
            assert done.is_ready
            assert done.read_now()
            found = located(done.found[PartitionKey(topic, 0)])
            assert (len(found.records), found.high_watermark, found.error) == (size, 2, None)

    run(scenario)


def test_too_little_is_waited_for_until_there_is_enough() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        size = world.write("t", b"a")
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=60_000, min_bytes=3 * size))
        assert not waiting.is_ready
        polling = Polling(waiting)
        await asyncio.sleep(1)
        world.write("t", b"b")
        await asyncio.sleep(1)
        assert not polling.ready.is_set()
        world.write("t", b"c")
        await polling.ready.wait()
        assert polling.times == 1
        assert polling.after_s == pytest.approx(2, abs=0.1)
        assert waiting.read_now()
        assert size_read(waiting) == 3 * size

    run(scenario)


def test_a_client_is_told_what_there_is_when_its_time_is_over() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        size = world.write("t", b"a")
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=5000, min_bytes=2 * size))
        polling = Polling(waiting)
        await polling.ready.wait()
        assert polling.after_s == pytest.approx(5, abs=0.1)
        assert waiting.read_now()
        assert size_read(waiting) == size

    run(scenario)


def test_a_poll_that_is_cancelled_is_never_ready_and_waits_nowhere() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        polling = Polling(begin(world, wanting(("t", 0, 0), max_wait_ms=5000)))
        polling.poll.cancel()
        world.write("t", b"a")
        await asyncio.sleep(10)
        polling.poll.hurry()
        assert polling.times == 0
        assert not world.partition("t")._growth_waiters

    run(scenario)


def test_a_poll_that_is_hurried_is_ready_at_once_and_only_once() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        polling = Polling(begin(world, wanting(("t", 0, 0), max_wait_ms=5000)))
        polling.poll.hurry()
        assert polling.times == 1
        world.write("t", b"a")
        await asyncio.sleep(10)
        assert polling.times == 1

    run(scenario)


def test_who_would_find_nothing_waits_for_the_sync_under_way_however_little_it_waits() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", config=SYNCED)
        size = world.write("t", b"a")
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=0))
        assert not waiting.is_ready
        polling = Polling(waiting)
        await asyncio.sleep(SYNC_WAIT_S / 2)
        assert not polling.ready.is_set()
        world.sync("t")
        await polling.ready.wait()
        assert waiting.read_now()
        assert size_read(waiting) == size

    run(scenario)


def test_a_sync_that_hangs_is_not_waited_for_for_long() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", config=SYNCED)
        world.write("t", b"a")
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=1000))
        polling = Polling(waiting)
        await polling.ready.wait()
        assert polling.after_s == pytest.approx(1 + SYNC_WAIT_S, abs=0.1)
        assert waiting.read_now()
        assert size_read(waiting) == 0

    run(scenario)


def test_what_an_answer_may_have_is_shared_by_its_partitions_in_their_order() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 3)
        sizes = [world.write("t", b"v" * 1000, partition=each) for each in range(3)]
        done = begin(world, wanting(*(("t", each, 0) for each in range(3)), max_bytes=sum(sizes[:2])))
        assert done.read_now()
        assert [size_read(done, PartitionKey("t", each)) for each in range(3)] == [*sizes[:2], 0]

    run(scenario)


def test_the_first_batch_is_given_whatever_its_size() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2)
        size = world.write("t", b"v" * 1000)
        world.write("t", b"v" * 1000, partition=1)
        done = begin(world, wanting(("t", 0, 0), ("t", 1, 0), max_bytes=10))
        assert done.read_now()
        assert [size_read(done, PartitionKey("t", each)) for each in range(2)] == [size, 0]

    run(scenario)


def test_of_more_than_there_is_room_for_the_rest_is_left_unread() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        size = world.write("t", b"v" * 1000)
        done = begin(world, wanting(("t", 0, 0)), max_read_bytes=100)
        assert done.read_now()
        records = located(done.found[FIRST]).records
        assert isinstance(records, UnreadRecords)
        assert len(records) == size

    run(scenario)


def test_what_is_not_in_memory_is_read_on_a_thread() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        size = world.write("t", b"a")
        world.partition("t").log.roll()
        world.write("t", b"b")
        done = begin(world, wanting(("t", 0, 0)))
        assert done.is_ready
        assert not done.read_now()
        await done.read()
        assert size_read(done) == size

    run(scenario)


def test_a_transaction_is_seen_when_it_has_ended_by_who_reads_what_is_committed() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        partition = world.partition("t")
        guard = partition.begin_verification(7, 0)
        partition.append_in_transaction(in_transaction(7, 0), guard=guard, now_ms=0)
        assert begin(world, wanting(("t", 0, 0), max_wait_ms=1000)).is_ready
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=1000, isolation_level=READ_COMMITTED))
        assert not waiting.is_ready
        polling = Polling(waiting)
        partition.append(commit(7), now_ms=0)
        await polling.ready.wait()
        assert polling.after_s < 1
        assert waiting.read_now()
        assert size_read(waiting) > 0

    run(scenario)


def test_a_refusal_is_told_at_once_beside_what_was_found() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        world.create("secret")
        world.access.use(NothingOn("secret"))
        size = world.write("t", b"a")
        unknown = UUID(int=99)
        wanted: list[Wanted] = [("t", 0, 0), ("t", 5, 0), ("none", 0, 0), (unknown, 0, 0), ("secret", 0, 0)]
        done = begin(world, wanting(*wanted, max_wait_ms=60_000, min_bytes=MAX_BYTES))
        assert done.is_ready
        assert done.read_now()
        assert size_read(done) == size
        refusals = [refusal(done, PartitionKey(topic, partition)) for topic, partition, _ in wanted[1:]]
        assert refusals == [
            UnknownTopicOrPartition,
            UnknownTopicOrPartition,
            UnknownTopicId,
            TopicAuthorizationFailed,
        ]

    run(scenario)


def test_an_offset_that_is_not_there_is_refused_and_so_is_a_follower() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        world.write("t", b"a")
        assert refusal(begin(world, wanting(("t", 0, 7), max_wait_ms=1000))) is OffsetOutOfRange
        assert refusal(begin(world, wanting(("t", 0, 0), replica_id=3))) is NotLeaderOrFollower

    run(scenario)


def test_a_topic_that_is_lost_while_it_is_waited_for_is_told_at_once() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        waiting = begin(world, wanting(("t", 0, 0), max_wait_ms=60_000))
        polling = Polling(waiting)
        world.partition("t").delete()
        await polling.ready.wait()
        assert polling.after_s < 1
        assert refusal(waiting) is UnknownTopicOrPartition

    run(scenario)


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
def test_what_is_led_elsewhere_before_it_is_read_is_not_read(is_cold: bool) -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2)
        size = world.write("t", b"a", partition=1)
        world.write("t", b"a")
        if is_cold:
            world.partition("t").log.roll()
            world.write("t", b"b")
        done = begin(world, wanting(("t", 0, 0), ("t", 1, 0), max_bytes=3 * MAX_BYTES))
        world.partition("t").resign(1)
        if not done.read_now():
            await done.read()
        assert size_read(done) == 0
        assert size_read(done, PartitionKey("t", 1)) == size

    run(scenario)


def test_a_session_that_goes_on_is_told_only_what_is_new() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2)
        keys = [PartitionKey("t", each) for each in range(2)]
        first = begin(world, wanting(("t", 0, 0), ("t", 1, 0), session=(NO_SESSION, INITIAL_EPOCH)))
        assert [first.is_told(key, first.found[key]) for key in keys] == [True, True]
        world.write("t", b"a", partition=0)
        second = begin(world, wanting(session=(first.session_id, 1)))
        assert second.read_now()
        assert list(second.found) == keys
        assert [second.is_told(key, second.found[key]) for key in keys] == [True, False]
        assert list(world.sessions._sessions[first.session_id].partitions) == keys[::-1]  # who was served waits
        with pytest.raises(FetchSessionIdNotFound):
            begin(world, wanting(session=(first.session_id + 1, 1)))

    run(scenario)


def test_a_request_for_very_many_is_taken_in_turns_as_if_it_were_for_few() -> None:
    async def scenario(world: RoundWorld) -> None:
        number = 3 * MAX_AT_ONCE
        world.create("t", number)
        wanted = [("t", each, 0) for each in range(number)]
        taking = FetchInTurns(world.fetches, CLIENT, EnoughRoom())
        request = wanting(*wanted, max_wait_ms=60_000, session=(NO_SESSION, INITIAL_EPOCH))
        begun = await taking.begin(request)
        assert world.fetches.takes_turns(wanting(session=(begun.session_id, 1)))
        finishing = asyncio.ensure_future(taking.finish(begun))
        await asyncio.sleep(1)
        assert not finishing.done()
        size = world.write("t", b"a", partition=7)
        await finishing
        assert [key.partition for key, each in begun.found.items() if located(each).records] == [7]
        assert size_read(begun, PartitionKey("t", 7)) == size
        assert not any(world.partition("t", each)._growth_waiters for each in range(number))

    run(scenario)


def test_a_request_that_takes_turns_can_be_hurried() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 300)
        taking = FetchInTurns(world.fetches, CLIENT, EnoughRoom())
        begun = await taking.begin(wanting(*(("t", each, 0) for each in range(300)), max_wait_ms=60_000))
        finishing = asyncio.ensure_future(taking.finish(begun))
        await asyncio.sleep(1)
        taking.hurry()
        async with asyncio.timeout(1):
            await finishing
        assert len(begun.found) == 300

    run(scenario)
