"""Groups of a mirrored topic go on in the mirror: two real brokers, and a real mirror between them at the end."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'barnabas[spark]'")

from barnabas.cli.pipeline import app
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines import jobs
from barnabas.spark.pipelines.group_sync import GroupSync, Mirrored
from barnabas.spark.pipelines.translation import translate
from barnabas.testing.embedded import EmbeddedBroker
from tests.spark.conftest import MakeTopic

if TYPE_CHECKING:
    from barnabas.client import Bus

WAIT_S = 90.0
Sync = Callable[..., GroupSync]


@pytest.fixture(scope="module")
def other() -> Iterator[EmbeddedBroker]:
    """The cluster that is mirrored into."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def sync(bootstrap: str, other: EmbeddedBroker) -> Iterator[Sync]:
    """One round for the groups of a topic; gives what did it."""
    made = []

    def run(topic: str, *groups: str) -> GroupSync:
        mirrored = Mirrored(Settings(bootstrap), topic, Settings(other.bootstrap), topic, groups)
        made.append(GroupSync(mirrored))
        made[-1].sync()
        return made[-1]

    yield run
    for each in made:
        each.close()


def commit(bus: "Bus", group: str, topic: str, *offsets: int | None) -> None:
    """What a group has read, said for it; by whoever reads the partitions in turn."""
    import confluent_kafka  # noqa: PLC0415

    given = {partition: offset for partition, offset in enumerate(offsets) if offset is not None}
    partitions = [confluent_kafka.TopicPartition(topic, *each) for each in given.items()]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bus.bootstrap, "group.id": group})
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def offsets_of(bus: "Bus", group: str, topic: str) -> list[int | None]:
    found = {each.partition: each.offset for each in bus.describe_group(group).partitions if each.topic == topic}
    return [found[partition] for partition in sorted(found)]


def send_mirrored(bus: "Bus", topic: str, source_offsets: list[int], partition: int = 0) -> None:
    for offset in source_offsets:
        bus.send(topic, f"v{offset}", partition=partition, headers={"mirror.offset": b"%d" % offset}).result(60)


def test_a_group_is_put_where_the_first_record_is_that_it_has_not_read(
    client: "Bus", other: EmbeddedBroker, make_topic: MakeTopic, sync: Sync
) -> None:
    topic = make_topic(partitions=5)
    other.bus.create_topic(topic, partitions=5)
    send_mirrored(other.bus, topic, [3, 4, 7, 20])  # a hole: what was compacted, or the marker of a transaction
    send_mirrored(other.bus, topic, [3, 4, 7, 20], partition=1)
    send_mirrored(other.bus, topic, [3, 4], partition=2)
    send_mirrored(other.bus, topic, [3, 4, 7], partition=3)
    group = f"{topic}-group"
    # In a hole; before the mirror's first; after its last; at it; of a partition that is empty there.
    commit(client, group, topic, 5, 1, 9, 7, 2)

    done = sync(topic, group)

    assert offsets_of(other.bus, group, topic) == [2, 0, 2, 2, 0]
    assert done.notes() == [f"group {group}: synchronized"]
    assert translate(other.bootstrap, topic, {0: 5, 2: 9}) == {0: 2, 2: 2}
    command = ["translate", topic, group, "--to", other.bootstrap, "-b", client.bootstrap, "--json"]
    told = json.loads(CliRunner().invoke(app, command).output)
    assert [row["offset in the mirror"] for row in told] == [2, 0, 2, 2, 0]


def test_a_group_is_never_moved_back_and_moves_on_with_the_source(
    client: "Bus", other: EmbeddedBroker, make_topic: MakeTopic, sync: Sync
) -> None:
    topic = make_topic(partitions=2)
    other.bus.create_topic(topic, partitions=2)
    for partition in (0, 1):
        send_mirrored(other.bus, topic, list(range(10)), partition=partition)
    group = f"{topic}-group"
    commit(client, group, topic, 4, 4)
    commit(other.bus, group, topic, 8, 2)

    done = sync(topic, f"{topic}-.*")
    assert offsets_of(other.bus, group, topic) == [8, 4]
    commit(client, group, topic, 9, 9)
    done.sync()

    assert offsets_of(other.bus, group, topic) == [9, 9]


def test_a_group_with_members_in_the_target_is_left_alone(
    client: "Bus", other: EmbeddedBroker, make_topic: MakeTopic, sync: Sync
) -> None:
    topic = make_topic()
    other.bus.create_topic(topic)
    send_mirrored(other.bus, topic, [0, 1, 2])
    group = f"{topic}-group"
    commit(client, group, topic, 3)
    reading = other.bus.consume(topic, group=group)
    assert next(reading).value == b"v0"

    done = sync(topic, group)

    assert done.notes() == [f"group {group}: has members in the target, not synchronized"]
    reading.close()
    done.sync()
    assert offsets_of(other.bus, group, topic) == [3]


def test_what_is_in_an_open_transaction_is_not_skipped(
    client: "Bus", other: EmbeddedBroker, make_topic: MakeTopic, sync: Sync
) -> None:
    topic = make_topic()
    other.bus.create_topic(topic)
    group = f"{topic}-group"
    commit(client, group, topic, 9)
    with other.bus.transaction(f"{topic}-mirror") as transaction:
        transaction.send(topic, "v0", headers={"mirror.offset": b"0"})
    with contextlib.suppress(ZeroDivisionError), other.bus.transaction(f"{topic}-mirror") as transaction:
        transaction.send(topic, "never seen", headers={"mirror.offset": b"9"}).result(60)
        raise ZeroDivisionError
    with other.bus.transaction(f"{topic}-mirror") as transaction:
        transaction.send(topic, "v9", headers={"mirror.offset": b"9"}).result(60)
        done = sync(topic, group)
        (while_open,) = offsets_of(other.bus, group, topic)
    done.sync()

    record = next(other.bus.consume(topic, offset=while_open or 0, until_end=True))
    assert record.value == b"v9"
    assert offsets_of(other.bus, group, topic) == [record.offset]


def test_a_record_that_was_not_mirrored_is_said_and_other_groups_go_on(
    client: "Bus", other: EmbeddedBroker, make_topic: MakeTopic, sync: Sync
) -> None:
    topic = make_topic(partitions=2)
    other.bus.create_topic(topic, partitions=2)
    send_mirrored(other.bus, topic, [0, 1], partition=1)
    other.bus.send(topic, "own", partition=0).result(60)
    commit(client, f"{topic}-a", topic, 1, 1)
    commit(client, f"{topic}-b", topic, None, 1)

    done = sync(topic, f"{topic}-[ab]", "nobody")

    note, other_note = done.notes()
    assert "has no header mirror.offset" in note
    assert other_note == f"group {topic}-b: synchronized"
    assert offsets_of(other.bus, f"{topic}-b", topic) == [1]
    with pytest.raises(InvalidRequest, match="has no partition 7"):
        translate(other.bootstrap, topic, {7: 0})


@pytest.fixture
def common(bootstrap: str, tmp_path: Path) -> dict[str, Any]:
    return {"bootstrap": bootstrap, "checkpoint": str(tmp_path / "checkpoint")}


def test_a_group_goes_on_in_the_mirror_while_it_runs_and_after_a_restart(
    spark: Any, common: dict[str, Any], other: EmbeddedBroker, make_topic: MakeTopic, client: "Bus"
) -> None:
    topic = make_topic(partitions=3)  # the last stays empty
    with client.transaction(f"{topic}-producer") as transaction:  # its markers make holes
        for number in range(20):
            transaction.send(topic, f"v{number}", partition=number % 2)
    group = f"{topic}-readers"
    read = [record.value for record in client.consume(topic, group=group, max_records=7, timeout=WAIT_S)]
    mirror = jobs.mirror(
        topic, to_bootstrap=other.bootstrap, partitions=3, sync_groups=[f"{topic}-.*"], group=f"{topic}-own", **common
    )

    first = mirror.run(spark, once=True)

    assert first.notes == [f"group {group}: synchronized"]
    assert f"{topic}-own" not in {each.name for each in other.bus.groups()}
    for number in range(20, 30):
        client.send(topic, f"v{number}", partition=number % 2).result(60)
    read += [record.value for record in client.consume(topic, group=group, max_records=6, timeout=WAIT_S)]
    with mirror.start(spark) as running:
        in_step = wait_until_in_step(client, other.bus, group, topic, running)
    assert in_step, running.snapshot()
    after = [record.value for record in other.bus.consume(topic, group=group, until_end=True)]
    assert sorted([*read, *after], key=repr) == sorted((b"v%d" % number for number in range(30)), key=repr), "each once"
    ends = [each.end_offset for each in other.bus.describe_topic(topic).partitions]
    assert sum(1 for _ in other.bus.consume(topic, until_end=True)) == 30, ends


def wait_until_in_step(source: "Bus", target: "Bus", group: str, topic: str, running: Any) -> bool:
    """Until what is left to read is as much in both."""
    for _ in range(int(WAIT_S / 0.2)):
        left = [sum(1 for _ in unread(bus, group, topic)) for bus in (source, target)]
        if left[0] == left[1] and running.is_active:
            return True
        threading.Event().wait(0.2)
    return False


def unread(bus: "Bus", group: str, topic: str) -> Any:
    starts = {each.partition: each.offset or 0 for each in bus.describe_group(group).partitions}
    return bus.consume(topic, offset=starts, until_end=True)
