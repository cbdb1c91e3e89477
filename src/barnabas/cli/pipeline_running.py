"""Running a pipeline from the command line: the shared options, progress on a terminal, stopping at a signal."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from barnabas.cli import layout, output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from barnabas.spark.pipelines import Pipeline, PipelineError
    from barnabas.spark.pipelines.progress import PipelineProgress

_LINE_EVERY_S: Final = 10.0
_SINK_WIDTH: Final = 28
_SHOW_CURSOR: Final = b"\x1b[?25h\n"

Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Process the records available now, then stop.")]
Seconds: TypeAlias = Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")]
Explain: TypeAlias = Annotated[bool, typer.Option("--explain", help="Show the query plans and run nothing.")]
Master: TypeAlias = Annotated[str | None, typer.Option(help="Spark master; default: local[*].")]
Remote: TypeAlias = Annotated[str | None, typer.Option(metavar="sc://HOST:PORT", help="A Spark Connect server.")]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Show Spark's log.")]


def run_pipeline(
    pipeline: "Pipeline",
    *,
    once: bool,
    seconds: float | None,
    explain: bool,
    master: str | None,
    remote: str | None,
    verbose: bool,
) -> None:
    """Run the pipeline and show its progress until it ends, or until Ctrl-C or SIGTERM.

    Errors of Spark are reported as errors of the file.
    """
    from barnabas.spark.pipelines import PipelineError

    stop = threading.Event()
    try:
        with _stopped_by_signals(stop) as take_signals:
            if explain:
                typer.echo(pipeline.explain(quiet_session(pipeline, master, remote, verbose=verbose)))
                return
            with pipeline.claimed():
                pipeline.check_topics()  # Spark takes seconds to start
                spark = quiet_session(pipeline, master, remote, verbose=verbose)
                take_signals()  # Spark has its own handler by now
                if stop.is_set():
                    output.say(f"pipeline {pipeline.name}: stopped before it started")
                    return
                with _shown() as show:
                    final = pipeline.run(spark, once=once, seconds=seconds, should_stop=stop.is_set, on_progress=show)
    except PipelineError as error:
        print_problems(error)
        raise typer.Exit(1) from None
    output.say(f"pipeline {final.name}: {final.state}; {final.summary()}")
    for note in final.notes:
        output.say(note)


def print_problems(error: "PipelineError") -> None:
    for problem in error.problems:
        output.say(str(problem), error=True)


def quiet_session(pipeline: "Pipeline", master: str | None, remote: str | None, *, verbose: bool) -> Any:
    """A session without Spark's log: the reason why a query ended is printed by us, in one line."""
    import tempfile

    from barnabas.spark.pipelines.problems import silence_refusals

    if not verbose:
        silence_refusals()
    if verbose or remote is not None:
        return pipeline.session(master=master, remote=remote)
    # Only the start of the JVM cannot be told to be silent: its words go to a file, and are shown if it fails.
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        real = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            spark = pipeline.session(master=master)
            spark.sparkContext.setLogLevel("OFF")
        except BaseException:
            os.dup2(real, 2)
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)
    return spark


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM stop the pipeline; a second one exits immediately.

    That does no harm: an unfinished batch is run again after a restart.
    """

    def ask(signum: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR)  # the table has hidden it
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        stop.set()

    with _signals_go_to(ask) as take:
        yield take


@contextmanager
def _signals_go_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[Callable[[], None]]:
    """Install a handler for SIGINT and SIGTERM; the function returned installs it again if another one replaced it."""

    def take() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    take()
    try:
        yield take
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def left_at_signals() -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM exit the process immediately, with one line: for work that needs no cleanup.

    An exception, as elsewhere, would be raised inside the call to Java that is under way, and show its traceback.
    """

    def leave(signum: int, _frame: FrameType | None) -> None:
        sys.stdout.flush()
        os.write(2, b"barnabas: interrupted\n")
        os._exit(128 + signum)

    with _signals_go_to(leave) as take:
        yield take


@contextmanager
def _shown() -> Iterator[Callable[["PipelineProgress"], None]]:
    """A live table on a terminal; elsewhere a line when there is progress, not too often."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield lambda progress: live.update(_table(progress))


def _lines() -> Callable[["PipelineProgress"], None]:
    import time

    shown: dict[str, object] = {"at": time.monotonic(), "text": ""}

    def show(progress: "PipelineProgress") -> None:
        text = progress.summary()
        now = time.monotonic()
        if text != shown["text"] and now - float(str(shown["at"])) >= _LINE_EVERY_S:
            output.say(f"pipeline {progress.name}: {text}", error=True)
            sys.stderr.flush()
            shown.update(at=now, text=text)

    return show


def _table(progress: "PipelineProgress") -> "RenderableType":
    """A row for each query; the column of dropped rows only if there are any, the sink only if there is room."""
    columns = ["query", "sink", "batch", "rows written", "dropped", "read/s", "lag", "ms/batch", "watermark"]
    rows = [
        [
            query.name,
            _cut(query.sink) or "-",
            "-" if query.batch_id < 0 else str(query.batch_id),
            f"{query.rows_written:,}",
            f"{query.duplicates + query.late:,}",
            f"{query.rows_per_second:,.0f}",
            "-" if query.lag is None else f"{query.lag:,}",
            f"{query.batch_ms:,}",
            query.watermark or "-",
        ]
        for query in progress.queries.values()
    ]
    width = layout.terminal_width()
    if not any(query.duplicates or query.late for query in progress.queries.values()):
        _leave_out("dropped", columns, rows)
    if layout.fit_columns(columns, rows, width) is None:
        _leave_out("sink", columns, rows)
    is_number = [name not in ("query", "sink", "watermark") for name in columns]
    return layout.render(columns, rows, is_number, width, title=f"{progress.name}: {progress.state}")


def _leave_out(name: str, columns: list[str], rows: list[list[str]]) -> None:
    at = columns.index(name)
    for each in (columns, *rows):
        del each[at]


def _cut(text: str) -> str:
    return text if len(text) <= _SINK_WIDTH else f"{text[: _SINK_WIDTH - 1]}…"
