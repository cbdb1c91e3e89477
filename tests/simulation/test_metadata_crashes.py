"""The metadata log on a disk that loses power at any moment: what was committed stays, whole, and nothing else comes.

TEST_SEEDS says how many runs, TEST_FIRST_SEED where to begin, as for the other machines here.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import TypeVar
from uuid import UUID

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata import (
    Image,
    MetadataDecision,
    MetadataRecord,
    NewTopic,
    allocate_producer_ids,
    commits,
    create_partitions,
    create_topic,
    delete_topic,
    set_configs,
)
from barnabas.core.metadata.records import BROKER_RESOURCE, Endpoint, decode_record
from barnabas.core.records.batch import BatchHeader, Buffer
from barnabas.core.records.record import decode_records
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.storage import metadata_snapshot
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotId
from barnabas.storage.quorum_log import QuorumLog
from barnabas.storage.truncate import delete_before
from barnabas.storage.unsynced import FlushPlan
from barnabas.testing.dice import SimulatedDice
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.simulation.seeded import in_turn, seeds
from tests.support.nodes import register_node

T = TypeVar("T")

SEEDS = 120
PLANTED_SEEDS = 150
NOTICED_BY = {"glue_half_a_commit_to_the_next": 75}  # or else by one of the first
BOOTS = 8


class Violation(AssertionError):
    """A promise was broken."""


class YieldingOffload:
    """Runs in place, after other tasks had their turn."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def run(self, function: Callable[[], T]) -> T:
        for _ in range(self._random.randrange(3)):
            await asyncio.sleep(0)
        return function()


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def elapsed_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class MetadataMachine:
    """Boots a node's metadata log again and again, and knows what it must hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(seed)
        self.counts: Counter[str] = Counter()
        self.decided: list[Sequence[MetadataRecord]] = []  # in the order of the log
        self.acknowledged = 0  # how many of them
        self._ids = 0
        self._config = MetadataLogConfig(max_records_between_snapshots=self.random.choice((10, 40, 200)))

    def run(self) -> Counter[str]:
        for _ in range(BOOTS):
            self._boot()
        self.disk.crash()
        self._check_recovered(self._open()[1].image)
        return self.counts

    def _boot(self) -> None:
        if self.random.random() < 0.4:
            self.disk.crash_after(self.random.randrange(90))
        try:
            data_dir, metadata = self._open()
            self._check_recovered(metadata.image)
            if self.random.random() < 0.5:
                self.disk.crash_after(self.random.randrange(120))
            asyncio.run(self._work(metadata, data_dir))
        except SimulatedCrash:
            self.counts["crash"] += 1
            self._die()

    def _open(self) -> tuple[DataDir, MetadataLog]:
        data_dir = DataDir(self.disk, "/data")
        if self.random.random() < 0.5:
            for _ in data_dir.open_logs(lambda _partition: LogConfig()):
                pass
        offload = YieldingOffload(self.random)
        metadata = MetadataLog.open(
            data_dir, offload=offload, clock=FixedClock(), dice=SimulatedDice(self.random), config=self._config
        )
        self.counts["cut commit"] += sum("interrupted" in note for note in metadata.notes)
        return data_dir, metadata

    def _die(self) -> None:
        if self.random.random() < 0.3:
            self.disk.restart()
        else:
            self.disk.crash(self.random.choice((Keep.RANDOM, Keep.RANDOM, Keep.NOTHING, Keep.EVERYTHING)))

    async def _work(self, metadata: MetadataLog, data_dir: DataDir) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                await metadata.start(tasks)
                await self._commit_some(metadata, data_dir)
                await metadata.close()
        except BaseExceptionGroup as group:
            crash = group.subgroup(SimulatedCrash)
            if crash is None:
                raise
            raise SimulatedCrash from crash
        if self.random.random() < 0.5:
            data_dir.close()
            self.counts["clean"] += 1
        self.disk.restart()

    async def _commit_some(self, metadata: MetadataLog, data_dir: DataDir) -> None:
        if self.random.random() < 0.5:
            self._note_reply(metadata, await metadata.commit(self._noting(self._register)))
        for _ in range(self.random.randrange(12)):
            count = self.random.choice((1, 1, 3))
            if self.random.random() < 0.2:
                self.disk.crash_after(self.random.randrange(count, count + 2))  # while the next commits are synced
            outcomes = await asyncio.gather(*(self._commit(metadata) for _ in range(count)), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            if self.random.random() < 0.2:
                data_dir.checkpoint()
        await metadata.wait_snapshot()
        self.counts["snapshot"] += metadata.snapshot is not None

    async def _commit(self, metadata: MetadataLog) -> None:
        with suppress(BarnabasError):  # what the decision refuses; the disk does not fail here
            self._note_reply(metadata, await metadata.commit(self._noting(self._decide)))

    def _noting(self, decide: Callable[[Image], MetadataDecision[object]]) -> Callable[[Image], MetadataDecision[int]]:
        """The same decision; its reply is its place in the log."""

        def noting(image: Image) -> MetadataDecision[int]:
            decision = decide(image)
            if decision.records:
                self.decided.append(decision.records)
            return MetadataDecision(decision.records, len(self.decided))

        return noting

    def _note_reply(self, metadata: MetadataLog, place: int) -> None:
        self.acknowledged = max(self.acknowledged, place)
        self.counts["commit"] += 1
        if self._find(metadata.image, place) is None:  # those decided after it may be there, too
            raise Violation(f"after commit {place} the image is not what the commits make")

    def _find(self, image: Image, first: int) -> int | None:
        """How many of the commits, so many at least, make this image."""
        made = image_of(self.decided[:first])
        for place in range(first, len(self.decided) + 1):
            if image == made:
                return place
            for record in self.decided[place] if place < len(self.decided) else ():
                made.apply(record)
        return None

    def _check_recovered(self, image: Image) -> None:
        """All that was acknowledged is there, perhaps some of those under way, in their order, and nothing else."""
        place = self._find(image, self.acknowledged)
        if place is None:
            raise Violation(f"of {self.acknowledged} commits recovery made something else")
        self.counts["unacknowledged"] += place - self.acknowledged
        self.acknowledged = place  # seen: from now on it must stay
        del self.decided[place:]

    # What is decided.

    def _register(self, image: Image) -> MetadataDecision[object]:
        return register_node(
            image, node_id=0, endpoints=[Endpoint("PLAINTEXT", "h", 1)], rack=None, incarnation=self._new_id()
        )

    def _decide(self, image: Image) -> MetadataDecision[object]:
        random = self.random
        name = f"topic{random.randrange(4)}"
        match random.randrange(10):
            case 0 | 1 | 2:
                new = NewTopic(name, random.choice((1, 60, 90)), 1, configs={"x": "v" * random.randrange(800)})
                return create_topic(image, new, topic_id=self._new_id())
            case 3:
                return delete_topic(image, name)
            case 4 | 5:
                return create_partitions(image, name, random.randrange(1, 200))
            case 6 | 7:
                changes = {f"k{key}": random.choice((None, "v" * random.randrange(400))) for key in range(9)}
                return set_configs(image, BROKER_RESOURCE, "", changes)
            case 8:
                return self._register(image)
            case _:
                return allocate_producer_ids(image, 1000)

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)


def image_of(decided: Iterable[Sequence[MetadataRecord]]) -> Image:
    image = Image()
    for records in decided:
        for record in records:
            image.apply(record)
    return image


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of several batches, each of a few sectors."""
    monkeypatch.setattr(commits, "MAX_BATCH_BYTES", 1000)


def test_every_commit_survives_crashes_whole_and_alone() -> None:
    mine = list(seeds(default=SEEDS))

    counts = sum((MetadataMachine(seed).run() for seed in mine), Counter[str]())

    print(f"{len(mine)} seeds: {dict(counts.most_common())}")
    for event in ("crash", "snapshot", "clean", "unacknowledged", "cut commit"):
        assert counts[event] > len(mine) // 25, f"the machine hardly sees a {event} any more"


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = MetadataMachine(4711), MetadataMachine(4711)

    assert first.run() == second.run()
    assert first.disk.fingerprint == second.disk.fingerprint


# Planted bugs


def reply_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushPlan, "run", lambda _plan: None)


def take_every_batch_for_a_commit(patch: pytest.MonkeyPatch) -> None:
    def read(_reader: commits.CommitReader, batch: Buffer, header: BatchHeader) -> Iterable[Sequence[MetadataRecord]]:
        yield [decode_record(record.value or b"") for record in decode_records(batch, 0, header)]

    patch.setattr(commits.CommitReader, "read", read)


def glue_half_a_commit_to_the_next(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits.CommitReader, "_drop", lambda _reader: None)


def write_snapshots_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    def replace(disk: Disk, path: str, data: bytes) -> None:
        disk.open(path, create=True).write(0, data)

    patch.setattr(metadata_snapshot, "replace_file", replace)


def forget_history_without_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    def forget_history(log: QuorumLog) -> tuple[list[SnapshotId], int]:
        return [], delete_before(log._log, log.flushed_offset)

    patch.setattr(MetadataSnapshots, "write", lambda *_arguments: None)
    patch.setattr(QuorumLog, "forget_history", forget_history)


@pytest.mark.parametrize(
    "plant",
    [
        reply_before_the_sync,
        take_every_batch_for_a_commit,
        glue_half_a_commit_to_the_next,
        write_snapshots_without_a_sync,
        forget_history_without_a_snapshot,
    ],
)
def test_the_machine_notices_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    tried = in_turn(PLANTED_SEEDS, NOTICED_BY.get(plant.__name__, 0))
    caught_by = next((seed for seed in tried if _fails(seed)), None)

    assert caught_by is not None, f"{PLANTED_SEEDS} runs did not notice"
    print(f"caught by seed {caught_by}")


def _fails(seed: int) -> bool:
    try:
        MetadataMachine(seed).run()
    except (Violation, BarnabasError):
        return True
    return False
