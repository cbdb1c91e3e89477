"""Validating the records of every produced batch, so that none is accepted that consumers cannot read.

How thoroughly is a setting of the topic (`record.validation`). Where numba is installed the work is done natively, tens
of nanoseconds for each record. Numba takes a second to load, and memory, so it is loaded only once there are more
records than plain Python can check beside its other work; on a thread, and meanwhile batches are checked as without it.

Most batches are checked on the loop, which takes less time than handing them to a thread. What would block it for long
(`TakesLong`) is checked on a thread.

Invariant: a batch is never changed here, so that a check may be repeated.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from barnabas.core.errors import CorruptRecord, InvalidRecord, RecordTooLarge
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_RECORD_SIZE,
    Buffer,
    check_crc,
    read_header,
)
from barnabas.core.records.checking import OK, check_framing, check_records, problem_of
from barnabas.core.records.compression import check_frame, decompress
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.services.opening import RecordsRefused, max_opened_bytes
from barnabas.services.settings import RecordValidation

log = get_logger("barnabas.produce")

NATIVE_NOW: Final = 250_000  # records that are checked on the loop: a few milliseconds
PLAIN_NOW: Final = 2_000
FRAMING_NOW: Final = 20_000
COMPRESSED_NOW_BYTES: Final = 16 * 1024
OPENED_NOW_BYTES: Final = 128 * 1024
# What plain Python may check in full of topics with record.validation=auto: a twentieth of a core.
PLAIN_RECORDS_PER_MS: Final = 50
PLAIN_RECORDS: Final = 50_000

# And what may be unpacked of them: a saturated lz4 producer would lose a quarter of its throughput to more.
UNPACKED_BYTES_PER_MS: Final = 8 * 1024
UNPACKED_BYTES: Final = 8 * 1024 * 1024

Check: TypeAlias = Callable[[Buffer, int, int], tuple[int, int]]

# Batch length, attributes, base timestamp, max timestamp, records.
_peek: Final = struct.Struct(">8xi9xh4xqq14xi").unpack_from
_CODEC_BITS: Final = 0x07


class TakesLong(Exception):
    """A batch must be checked on a thread. Nothing was done."""


def load_kernel() -> Check | None:
    """The native check; None where numba is not installed. Takes a second, more on a machine's first time."""
    try:
        from barnabas.core.records.check_kernel import check_records as check_natively  # noqa: PLC0415
    except ImportError:
        return None
    return check_natively


class RecordChecks:
    """Checks batches, natively once `run` has loaded the kernel."""

    def __init__(self, offload: Offload, *, load: Callable[[], Check | None] = load_kernel) -> None:
        self._offload = offload
        self._load = load
        self._native: Check | None = None
        self._is_native_wanted = asyncio.Event()
        self._left = PLAIN_RECORDS
        self._left_at_ms = 0
        self._unpackable = UNPACKED_BYTES
        self._unpackable_at_ms = 0
        self._passed_over = 0

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter(
            "compressed_batches_unchecked_total",
            "Compressed batches whose records were not checked because there were too many.",
            lambda: self._passed_over,
        )

    @property
    def is_native(self) -> bool:
        return self._native is not None

    async def run(self) -> None:
        """Load the native check once it is worth it; a task of the node."""
        await self._is_native_wanted.wait()
        self._native = await self._offload.run(self._load)
        if self._native is None:
            log.info(
                "numba is not installed: in large batches only the lengths of records are checked, not every field"
            )

    def takes_long(self, validation: RecordValidation, records: memoryview | None, *, now_ms: int) -> bool:
        """Whether a batch may have to be checked on a thread."""
        if records is None or len(records) < HEADER_SIZE or validation is RecordValidation.NONE:
            return False
        _, attributes, _, _, count = _peek(records)
        if attributes & _CODEC_BITS:
            return self._may_unpack(validation, len(records), now_ms)
        return bool(count > self._most_now(validation))

    def check(self, validation: RecordValidation, records: memoryview, *, now_ms: int) -> int | None:
        """Refuse a batch whose records do not match its header; raises `TakesLong` if that is work for a thread.

        Returns the newest timestamp if it differs from the header.
        """
        length, attributes, base_timestamp, max_timestamp, count = _peek(records)
        if validation is RecordValidation.NONE or length + LOG_OVERHEAD != len(records) or count <= 0:
            return None  # the log says what is wrong with the latter
        if attributes & _CODEC_BITS and not self._may_unpack(validation, len(records), now_ms):
            self._passed_over += 1
            return None
        section = self._unpack_now(records) if attributes & _CODEC_BITS else records[HEADER_SIZE:]
        _check_count(records, section, count)  # before it is counted as work, which a lie is not
        native = self._native
        if native is None:
            self._spend(count, now_ms)
        if count > self._most_now(validation):
            raise TakesLong
        is_full = native is not None or validation is RecordValidation.FULL or (self._left > 0 and count <= PLAIN_NOW)
        newest = self._check_section(records, section, count, base_timestamp, is_full=is_full)
        return None if newest is None or newest == max_timestamp else newest

    def check_long(self, validation: RecordValidation, records: Buffer) -> int | None:
        """As `check`, for any batch, on any thread."""
        length, attributes, base_timestamp, max_timestamp, count = _peek(records)
        if validation is RecordValidation.NONE or length + LOG_OVERHEAD != len(records) or count <= 0:
            return None
        section: Buffer = memoryview(records)[HEADER_SIZE:]
        if attributes & _CODEC_BITS:
            section = _unpack(records, max_bytes=max_opened_bytes(memoryview(records)))
        _check_count(records, section, count)
        is_full = self._native is not None or validation is RecordValidation.FULL or count <= PLAIN_NOW
        newest = self._check_section(records, section, count, base_timestamp, is_full=is_full)
        return None if newest is None or newest == max_timestamp else newest

    def _most_now(self, validation: RecordValidation) -> int:
        """How many records are checked on the loop."""
        if self._native is not None:
            return NATIVE_NOW
        return PLAIN_NOW if validation is RecordValidation.FULL else FRAMING_NOW

    def _spend(self, count: int, now_ms: int) -> None:
        """Count what plain Python has to check; too much of it triggers loading the native check."""
        passed_ms = max(now_ms - self._left_at_ms, 0)
        self._left = min(self._left + passed_ms * PLAIN_RECORDS_PER_MS, PLAIN_RECORDS) - count
        self._left_at_ms = now_ms
        if self._left <= 0:
            self._left = 0
            self._is_native_wanted.set()

    def _may_unpack(self, validation: RecordValidation, size: int, now_ms: int) -> bool:
        """Whether a compressed batch is within the budget for decompression; counts it if so."""
        if validation is RecordValidation.FULL:
            return True
        passed_ms = max(now_ms - self._unpackable_at_ms, 0)
        self._unpackable = min(self._unpackable + passed_ms * UNPACKED_BYTES_PER_MS, UNPACKED_BYTES)
        self._unpackable_at_ms = now_ms
        if self._unpackable <= 0:
            return False
        self._unpackable -= size
        return True

    def _unpack_now(self, records: memoryview) -> Buffer:
        if len(records) > COMPRESSED_NOW_BYTES:
            raise TakesLong
        try:
            return _unpack(records, max_bytes=OPENED_NOW_BYTES)
        except RecordTooLarge:
            raise TakesLong from None

    def _check_section(
        self, records: Buffer, section: Buffer, count: int, base_timestamp: int, *, is_full: bool
    ) -> int | None:
        """Returns the newest timestamp, if all records were checked."""
        newest = None
        if self._native is not None:
            status, newest = self._native(section, count, base_timestamp)
        elif is_full:
            status, newest = check_records(bytes(section), count, base_timestamp)
        else:
            status = check_framing(bytes(section), count, base_timestamp)
        if status != OK:
            _check_crc(records)
            problem = problem_of(status)
            raise RecordsRefused(f"the batch cannot be read: {problem}", ((status >> 8, problem),))
        return newest


def _check_count(records: Buffer, section: Buffer, count: int) -> None:
    if count * MIN_RECORD_SIZE > len(section):
        _check_crc(records)
        raise InvalidRecord(f"a batch claims {count} records in {len(section)} bytes")


def _unpack(records: Buffer, *, max_bytes: int) -> Buffer:
    header = read_header(records)
    section = memoryview(records)[HEADER_SIZE:]
    try:
        opened = decompress(header.codec, section, max_bytes=max_bytes)
        check_frame(header.codec, section)
        return opened
    except CorruptRecord as error:
        _check_crc(records)
        raise InvalidRecord(f"the records of the batch cannot be decompressed: {error}") from None


def _check_crc(records: Buffer) -> None:
    """If the batch was damaged in transit, raise that instead: the client retries it."""
    check_crc(records, 0, read_header(records))
