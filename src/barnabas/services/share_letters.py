"""The dead letters of one share partition: written one range after another, for as long as that takes.

Nothing is given up: a letter that cannot be written is tried again, at longer and longer intervals, and its record
stays until it is. What is wrong is logged once, and again when it changes or each minute; the metrics count it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.settings import LetterSettings, ShareConfig
from barnabas.core.records.dead_letters import LetterRange
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.partition import Partition

if TYPE_CHECKING:  # loaded with the first share group
    from barnabas.core.groups.share.partition import SharePartition
    from barnabas.core.groups.share.persisted import ShareKey

log = get_logger("barnabas.shares")

FIRST_RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 10.0
SAID_AGAIN_S: Final = 60.0
MAX_RANGE: Final = 500


class Writing(Protocol):
    """Who writes letters."""

    async def write(self, group: str, partition: Partition, wanted: LetterRange, settings: LetterSettings) -> int: ...


class LetterCounts:
    """What became of the letters of a node."""

    def __init__(self) -> None:
        self.written = 0
        self.failures = 0
        self.deleted = 0  # their records were deleted from the log first


class Lettered(Protocol):
    """The share partition, as far as it matters here."""

    key: ShareKey
    partition: Partition

    @property
    def title(self) -> str: ...

    @property
    def config(self) -> ShareConfig: ...

    @property
    def share(self) -> SharePartition: ...

    @property
    def is_current(self) -> bool: ...

    def follow_log_start(self) -> None: ...

    def changed(self) -> None: ...


class ShareLetters:
    """Writes the letters of a share partition while there are any, in one task."""

    def __init__(self, led: Lettered, writing: Writing, counts: LetterCounts) -> None:
        self._led = led
        self._writing = writing
        self._counts = counts
        self._said: tuple[str, float] = ("", 0.0)  # the last failure in the log, and when
        self._retry_s = FIRST_RETRY_S

    async def run(self) -> None:
        """Return when there are none left, or somebody else leads."""
        led = self._led
        while led.is_current:
            try:
                wanted = self._next()
                if wanted is not None:
                    is_written = await self._write(wanted, led.config.letters)
                elif led.share.window.archiving:
                    led.changed()  # that they are to be written is not written yet
                    is_written = False
                else:
                    return
            except BarnabasError:  # it is used no more, or this node does not know for now whether it leads
                is_written = False
            if not is_written:
                await asyncio.sleep(self._retry_s)
                self._retry_s = min(self._retry_s * 2, LONGEST_RETRY_S)

    def _next(self) -> LetterRange | None:
        self._led.follow_log_start()
        return self._led.share.next_letters(limits=self._led.config.limits, max_records=MAX_RANGE)

    async def _write(self, wanted: LetterRange, settings: LetterSettings | None) -> bool:
        led = self._led
        if settings is None:
            log.warning("%s: offsets %d to %d get no dead letter: the group has none any more", led.title, *wanted[:2])
            self._end(wanted.first, wanted.last)
            return True
        try:
            last = await self._writing.write(led.key.group, led.partition, wanted, settings)
        except BarnabasError as error:
            self._note(error, wanted)
            return False
        self._counts.written += last - wanted.first + 1
        self._retry_s = FIRST_RETRY_S
        if self._said[0]:
            log.info("%s: dead letters are written again", led.title)
            self._said = ("", 0.0)
        self._end(wanted.first, last)
        return True

    def _end(self, first: int, last: int) -> None:
        self._led.share.end_letters(first, last)
        self._led.changed()

    def _note(self, error: BarnabasError, wanted: LetterRange) -> None:
        self._counts.failures += 1
        now, text = asyncio.get_running_loop().time(), str(error)
        said, at = self._said
        if text != said or now >= at + SAID_AGAIN_S:
            self._said = (text, now)
            log.error(
                "%s: the dead letter of offset %d cannot be written, and is tried again until it is: %s",
                self._led.title,
                wanted.first,
                text,
            )
