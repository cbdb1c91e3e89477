"""Log lines: one line each whatever a client puts into it, and few of each kind."""

import logging
from collections.abc import Iterator

import pytest

import barnabas.node  # noqa: F401 - which has all loggers of the broker
from barnabas.runtime import log_lines
from barnabas.runtime.log_lines import LINES_PER_WINDOW, LONGEST_LINE, get_logger

FORMAT = "%(levelname)s %(name)s %(message)s"


class Lines(logging.Handler):
    """What is written, as `barnabas serve` writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    log = logging.getLogger("barnabas")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def log_of(name: str) -> logging.Logger:
    return get_logger(f"barnabas.test.{name}")


FORGED = "topic\n2026-11-16 ERROR barnabas.node the disk failed\r\x1b[2J\u202e\x00\x85\u2028"


def test_what_a_client_sends_stays_on_its_line_and_drives_no_terminal(lines: Lines) -> None:
    log_of("forged").warning("closing %s: %s", "client", FORGED)
    (text,) = lines.text
    assert text.isprintable()
    assert "\\n2026-11-16 ERROR" in text
    assert text.startswith("WARNING barnabas.test.forged closing client: topic")


def test_a_traceback_cannot_look_like_lines_of_the_log(lines: Lines) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        log_of("traced").exception("a request of %s failed", "client")
    first, *rest = lines.text[0].split("\n")
    assert first == "ERROR barnabas.test.traced a request of client failed"
    assert rest
    assert all(line.startswith("  | ") and line.isprintable() for line in rest)
    assert any("ValueError" in line for line in rest)


def test_a_long_line_is_cut(lines: Lines) -> None:
    log_of("long").warning("%s", "x" * 100_000)
    assert len(lines.text[0]) < LONGEST_LINE + 100
    assert lines.text[0].endswith("(100000 characters)")


def test_of_many_lines_of_a_kind_a_few_are_written_and_the_others_counted(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of("many")
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    for n in range(55_000):
        log.warning("closing %s", n)
    log.warning("closing %s: %s", 1, "another kind")
    log.warning("closing %s", 2, extra={"kind": "a kind of its own"})
    assert len(lines.text) == LINES_PER_WINDOW + 2
    now += 60
    log.warning("closing %s", "later")
    assert lines.text[-1].endswith("closing later (and 54,990 more like it in the last 60 s)")
    log.warning("closing %s", "once more")
    assert lines.text[-1].endswith("closing once more")


def test_what_was_left_out_is_told_though_no_more_comes(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of("over")
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    for n in range(100):
        log.warning("closing %s", n)
    log_lines.report()
    assert len(lines.text) == LINES_PER_WINDOW
    now += 61
    log_lines.report()
    assert lines.text[-1].endswith("closing 99 (and 89 more like it in the last 60 s)")
    log_lines.report()
    assert len(lines.text) == LINES_PER_WINDOW + 1


def test_every_logger_of_the_broker_has_clean_lines() -> None:
    names = [name for name in logging.root.manager.loggerDict if name.startswith("barnabas.")]
    client_side = ("barnabas.client", "barnabas.spark", "barnabas.test", "barnabas.testing")
    own = [name for name in names if not name.startswith(client_side)]
    assert "barnabas.connections" in own
    for name in own:
        assert log_lines.clean in logging.getLogger(name).filters, f"{name}: use log_lines.get_logger"
