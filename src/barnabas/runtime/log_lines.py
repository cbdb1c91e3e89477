"""Log lines that a client cannot forge, and cannot make many of.

A logger from here shows unprintable characters as escapes, a traceback with a mark before each line, and truncates
lines that are too long. Of each kind of message it writes a few in a minute and counts the others; the next line of
that kind, or `report`, says how many were left out.

A kind is the text of the message before its values are put in, with what ``extra={"kind": ...}`` adds to it.
"""

import json
import logging
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

LONGEST_LINE: Final = 2000
LINES_PER_WINDOW: Final = 10
WINDOW_S: Final = 60.0


def get_logger(name: str, *, is_limited: bool = True) -> logging.Logger:
    """The logger of this name, with cleaned lines and limited in rate: for everything that clients can cause."""
    log = logging.getLogger(name)
    if clean not in log.filters:
        log.addFilter(clean)
        if is_limited:
            _limits.append(FewLines(log))
            log.addFilter(_limits[-1])
    return log


def printable(text: str) -> str:
    """The text on one line, without control characters."""
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def clean(record: logging.LogRecord) -> bool:
    """A filter that cleans every line and drops none."""
    kind = getattr(record, "kind", None)
    record.kind = str(record.msg) if kind is None else f"{record.msg} ({kind})"
    record.msg, record.args = printable(record.getMessage()), ()
    if record.exc_info and record.exc_info[0] is not None and record.exc_text is None:
        lines = "".join(traceback.format_exception(*record.exc_info)).splitlines()
        record.exc_text = "\n".join(f"  | {printable(line)}" for line in lines)
    return True


class JsonLines(logging.Formatter):
    """Writes each line as one JSON object: what a client put into a message is a string in it, and cannot end it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        text = record.exc_text
        if text is None and record.exc_info and record.exc_info[0] is not None:
            text = self.formatException(record.exc_info)
        if text is not None:
            fields["exception"] = text
        # Escaped down to ASCII: some viewers take other characters for the end of a line, too.
        return json.dumps(fields)


@dataclass(slots=True)
class _Window:
    """The lines of one kind since `began_at`."""

    began_at: float
    passed: int = 0
    left_out: int = 0
    last: logging.LogRecord | None = None  # of those that were left out


class FewLines(logging.Filter):
    """Writes a few lines of each kind in a minute. The kinds are those in the program, so they are few."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log
        self._windows: dict[str, _Window] = {}
        self.left_out = 0
        """How many lines were not written."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is written."""
        kind, now = str(getattr(record, "kind", record.msg)), time.time()
        window = self._windows.get(kind)
        if window is None or now - window.began_at >= WINDOW_S:
            if window is not None and window.left_out:
                _say_more(record, window)
            window = self._windows[kind] = _Window(now)
        if window.passed >= LINES_PER_WINDOW:
            window.left_out += 1
            self.left_out += 1
            window.last = record
            return False
        window.passed += 1
        return True

    def forget(self) -> None:
        """Reset the counts of every kind."""
        self._windows.clear()

    def report(self, now: float) -> None:
        """Log how many lines were left out in past windows, with the last of them."""
        for kind, window in list(self._windows.items()):
            if now - window.began_at >= WINDOW_S:
                del self._windows[kind]
                if window.last is not None:
                    window.left_out -= 1
                    _say_more(window.last, window)
                    self._log.callHandlers(window.last)


def _say_more(record: logging.LogRecord, window: _Window) -> None:
    if window.left_out:
        record.msg = f"{record.msg} (and {window.left_out:,} more like it in the last {WINDOW_S:.0f} s)"


_limits: Final[list[FewLines]] = []


def forget() -> None:
    """Reset all loggers, so that one test does not limit the next."""
    for each in _limits:
        each.forget()


def left_out() -> int:
    """How many lines of all loggers of this process were not written because of the limit."""
    return sum(each.left_out for each in _limits)


def report() -> None:
    """Have all loggers report the lines they left out, of kinds without a newer line."""
    now = time.time()
    for each in _limits:
        each.report(now)
