"""Damaged batches, on a real broker: what is before one is handed out, and nothing of it or behind it is."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.client import intact
from barnabas.client.bus import Bus
from barnabas.client.errors import DamagedBatch, Unreadable
from barnabas.client.message import Message
from barnabas.core.records.batch import iter_batches
from barnabas.testing.embedded import EmbeddedBroker

BATCHES: Final = 6
PER_BATCH: Final = 20
DAMAGED: Final = 3  # the batch
FIRST_BAD: Final = DAMAGED * PER_BATCH
REFUSALS: Final = (DamagedBatch, Unreadable)  # who notices first, the client or the broker
# Which byte of the batch is changed, and which of its bits.
PLACES: Final = {
    "a value": (100, 0x10),
    "checksum": (18, 0x10),
    "codec": (22, 0x01),
    "format number": (16, 0x10),
    "length, shorter": (11, 0x10),
    "length, longer": (9, 0x10),
    "offset, earlier": (7, 0x10 | 0x04),
    "offset, behind the end": (3, 0x10),
    "count": (60, 0x10),
}


@pytest.fixture(autouse=True)
def soon_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intact, "_STALL_S", 0.3)


Damage = Callable[[str], str]


@pytest.fixture
def damaged(broker: EmbeddedBroker) -> Iterator[Damage]:
    """Makes a topic with a damaged batch, and tells its name."""
    # Nothing but the flush ends a batch, however slow the machine is.
    patient = Bus(broker.bootstrap, config={"linger.ms": "60000"})

    def make(place: str) -> str:
        topic = f"damaged-{uuid.uuid4().hex[:8]}"
        patient.create_topic(topic, partitions=1)
        for first in range(0, BATCHES * PER_BATCH, PER_BATCH):
            for number in range(first, first + PER_BATCH):
                patient.send(topic, f"{number:050}")
            patient.flush()
        segment = Path(broker.data_dir) / f"{topic}-0" / f"{0:020}.log"
        data = bytearray(segment.read_bytes())
        batches = list(iter_batches(bytes(data)))
        assert len(batches) == BATCHES
        at, bits = PLACES[place]
        data[batches[DAMAGED][0] + at] ^= bits
        with segment.open("r+b") as file:
            file.write(data)
        return topic

    with patient:
        yield make


def read_up_to_damage(
    records: Iterator[Message] | Generator[Message, None, None],
) -> tuple[list[int], DamagedBatch | Unreadable]:
    """The offsets that were handed out, and the refusal."""
    offsets = []
    try:
        for record in records:
            assert record.value == f"{record.offset:050}".encode()
            offsets.append(record.offset)
    except REFUSALS as refusal:
        return offsets, refusal
    pytest.fail(f"{len(offsets)} records were handed out, and nothing was said")


@pytest.mark.parametrize("place", PLACES)
def test_a_reader_stops_at_a_damaged_batch(real_bus: Bus, damaged: Damage, place: str) -> None:
    topic = damaged(place)

    offsets, refusal = read_up_to_damage(real_bus.consume(topic, until_end=True))

    assert offsets == list(range(FIRST_BAD))
    assert (refusal.topic, refusal.partition, refusal.offset) == (topic, 0, FIRST_BAD)
    assert f"{topic}-0 at offset {FIRST_BAD}" in str(refusal)
    assert f"barnabas topic repair {topic}" in str(refusal)


@pytest.mark.parametrize("place", PLACES)
def test_columns_stop_at_a_damaged_batch(real_bus: Bus, damaged: Damage, place: str) -> None:
    topic = damaged(place)
    offsets: list[int] = []

    def read() -> None:
        for batch in real_bus.read_arrow(topic, columns=["offset"]):
            offsets.extend(batch.column("offset").to_pylist())

    with pytest.raises(REFUSALS, match=f"{topic}-0 at offset {FIRST_BAD}"):
        read()
    assert offsets == list(range(FIRST_BAD))


@pytest.mark.parametrize("place", ["a value", "length, longer"])
def test_a_group_does_not_commit_past_a_damaged_batch(real_bus: Bus, damaged: Damage, place: str) -> None:
    topic = damaged(place)

    offsets, _ = read_up_to_damage(real_bus.consume(topic, group=topic, until_end=True))
    assert offsets == list(range(FIRST_BAD))
    (found,) = real_bus.describe_group(topic).partitions
    assert found.offset == FIRST_BAD

    again, refusal = read_up_to_damage(real_bus.consume(topic, group=topic))
    assert again == []
    assert refusal.offset == FIRST_BAD


def test_a_record_of_a_damaged_batch_is_refused(real_bus: Bus, damaged: Damage) -> None:
    topic = damaged("a value")

    with pytest.raises(REFUSALS, match=f"{topic}-0 at offset {FIRST_BAD}"):
        real_bus.get(topic, 0, FIRST_BAD + 5)
    assert real_bus.get(topic, 0, FIRST_BAD - 1).offset == FIRST_BAD - 1
    assert real_bus.get(topic, 0, FIRST_BAD + PER_BATCH).offset == FIRST_BAD + PER_BATCH


def test_a_record_that_cannot_be_found_behind_a_damaged_length_is_refused(real_bus: Bus, damaged: Damage) -> None:
    topic = damaged("length, longer")

    with pytest.raises(REFUSALS, match=f"{topic}-0 at offset"):
        real_bus.get(topic, 0, FIRST_BAD)


def test_a_merge_stops_at_a_damaged_batch(real_bus: Bus, damaged: Damage) -> None:
    offsets, _ = read_up_to_damage(real_bus.merge(damaged("a value")))

    assert offsets == list(range(len(offsets)))
    assert len(offsets) <= FIRST_BAD


def test_what_is_before_a_damaged_batch_is_processed_and_committed(real_bus: Bus, damaged: Damage) -> None:
    topic = damaged("a value")
    real_bus.create_topic(f"{topic}-out")

    with pytest.raises(REFUSALS):
        real_bus.process(topic, lambda record: record, f"{topic}-out", group=topic, max_wait=0, until_end=True)

    written = sum(1 for _ in real_bus.consume(f"{topic}-out", until_end=True))
    (found,) = real_bus.describe_group(topic).partitions
    assert found.offset == written == FIRST_BAD


def test_the_command_says_where_the_damage_is(broker: EmbeddedBroker, damaged: Damage) -> None:
    topic = damaged("a value")
    command = [sys.executable, "-m", "barnabas.cli.main", "consume", topic, "--until-end", "-b", broker.bootstrap]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == FIRST_BAD
    assert f"{topic}-0 at offset {FIRST_BAD}" in done.stderr
    assert "Traceback" not in done.stderr
