"""Valid batches with random damage and a right checksum: every reader answers or refuses, and nothing else."""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import Buffer, Codec, TimestampType, read_header, seal
from barnabas.core.records.columnar import decode_arrow
from barnabas.core.records.control import MarkerType, encode_marker, read_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch

MAX_BYTES = 1 << 20


def originals() -> list[bytearray]:
    headers = (("trace", b"0123456789"), ("empty", b""), ("none", None))
    records = [
        Record(100 + 2 * n, 1_700_000_000_000 + 1000 * n, b"k" * n if n % 3 else None, b"v" * 30 * n, headers[: n % 4])
        for n in range(8)
    ]
    batches = [encode_batch(records, codec=codec) for codec in Codec]
    batches.append(encode_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, producer_id=3))
    batches += [
        encode_marker(type_, producer_id=3, producer_epoch=0, coordinator_epoch=1, timestamp_ms=5)
        for type_ in (MarkerType.COMMIT, MarkerType.ABORT)
    ]
    return batches


def damage(batch: bytearray, dice: random.Random) -> bytearray:
    """Flip, overwrite, insert, delete or cut; then set the length and checksum right more often than not."""
    mutant = bytearray(batch)
    for _ in range(dice.randint(1, 4)):
        # Header and the first records are where the interesting bytes are.
        at = min(int(dice.expovariate(1 / 60)), len(mutant) - 1) if dice.random() < 0.7 else dice.randrange(len(mutant))
        match dice.randrange(6):
            case 0 | 1:
                mutant[at] ^= 1 << dice.randrange(8)
            case 2:
                mutant[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 3:
                mutant[at:at] = dice.randbytes(dice.randint(1, 5))
            case 4:
                del mutant[at : at + dice.randint(1, 5)]
            case _ if len(mutant) > 80:
                del mutant[dice.randrange(61, len(mutant)) :]
    if len(mutant) >= 61:
        mutant[16] = 2
        if dice.random() < 0.8:
            mutant[8:12] = (len(mutant) - 12).to_bytes(4, "big")
        seal(mutant, 0, len(mutant))
    return mutant


def read_as_marker(buffer: Buffer) -> object:
    return read_marker(buffer, 0, read_header(buffer))


READERS: dict[str, Callable[[Buffer], Any]] = {
    "decode_batch": lambda buffer: decode_batch(buffer, max_bytes=MAX_BYTES),
    "read_marker": read_as_marker,
    "decode_arrow": lambda buffer: decode_arrow(buffer, max_bytes=MAX_BYTES, aborted=[(3, 0)]).validate(full=True),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("seed", range(4))
def test_damage_is_answered_or_refused(reader: str, seed: int) -> None:
    dice = random.Random(seed)
    read = READERS[reader]
    for batch in originals():
        for _ in range(250):
            mutant = damage(batch, dice)
            with contextlib.suppress(BarnabasError):
                read(mutant)


@pytest.mark.parametrize("seed", range(4))
def test_both_decoders_agree_on_damaged_batches(seed: int) -> None:
    dice = random.Random(1000 + seed)
    for batch in originals():
        for _ in range(150):
            mutant = damage(batch, dice)
            try:
                header = read_header(mutant)
                expected = decode_batch(mutant, max_bytes=MAX_BYTES)
            except BarnabasError:
                continue
            if not header.is_control and header.base_offset >= 0:
                found = decode_arrow(mutant, max_bytes=MAX_BYTES, columns=["offset", "key", "value"]).to_pylist()
                assert found == [{"offset": r.offset, "key": r.key, "value": r.value} for r in expected]
