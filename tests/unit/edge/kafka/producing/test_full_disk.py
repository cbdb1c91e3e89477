"""A data directory without room: clients' records are refused, the broker's own are not, and it passes."""

import errno

from barnabas.services.broker import Broker
from barnabas.testing.disk import SimulatedDisk
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.fetching.support import values_in
from tests.unit.edge.kafka.handlers.grouping import commit
from tests.unit.edge.kafka.producing.transacting import part, with_admission
from tests.unit.edge.kafka.support import append, create, run

STORAGE_ERROR = 56  # which stock producers retry


def test_records_are_refused_in_the_reserve_while_offsets_and_topics_are_written() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "compacted", cleanup_policy="compact")
        caller = Caller(broker)
        assert await caller.refusal("t", batch(b"before")) == 0
        broker.logs.data_dir.health.note_room(is_full=True)
        assert await caller.refusal("t", batch(b"refused")) == STORAGE_ERROR
        assert await caller.refusal("compacted", batch(b"refused")) == STORAGE_ERROR
        with_admission(broker)
        assert await caller.refusal("t", part(0), transactional_id="id") == STORAGE_ERROR
        assert values_in(await caller.fetched(("t", 0, 0))) == [b"before"]
        assert await commit(broker, "t", {0: 1}) == [0]
        await create(broker, "another")
        broker.logs.data_dir.health.note_room(is_full=False)
        assert await caller.refusal("t", batch(b"after")) == 0
        assert values_in(await caller.fetched(("t", 0, 1))) == [b"after"]

    run(scenario)


def test_a_partition_that_cannot_be_opened_is_refused_and_no_other_suffers() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        caller, disk = Caller(broker), broker.logs.data_dir._disk
        assert isinstance(disk, SimulatedDisk)
        assert await caller.refusal("t", batch(b"a"), partition=0) == 0
        for error in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            disk.fail_open(lambda path: "t-1" in path, error=error)
            assert await caller.refusal("t", batch(b"b"), partition=1) == STORAGE_ERROR
            assert await caller.refusal("t", batch(b"a"), partition=0) == 0
        assert await caller.refusal("t", batch(b"b"), partition=1) == 0

    run(scenario)


def test_nobody_waits_for_the_sync_of_a_disk_that_has_failed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        append(broker, "t", 1, 2)
        partition = broker.served.get_partition("t", 0)
        behind = [partition.is_behind]
        broker.logs.data_dir.health.fail(OSError("broken"))
        behind.append(partition.is_behind)
        assert behind == [True, False]
        broker.logs.data_dir.health.offline_reason = None

    run(scenario)
