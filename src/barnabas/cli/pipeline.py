"""`barnabas pipeline`: run, validate, list and show the status of pipelines; and the ready-made jobs, pipelines too."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from barnabas.cli.pipeline_jobs import add_jobs
from barnabas.cli.pipeline_running import (
    Explain,
    Master,
    Once,
    Remote,
    Seconds,
    Verbose,
    left_at_signals,
    print_problems,
    quiet_session,
    run_pipeline,
)

if TYPE_CHECKING:
    from barnabas.spark.pipelines import Pipeline

app = typer.Typer(
    name="pipeline",
    help="Run, validate and watch pipelines on Spark: from files, or ready-made jobs.",
    no_args_is_help=True,
)
add_jobs(app)

File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The pipeline.")]


@app.command()
def run(
    file: File,
    once: Once = False,
    seconds: Seconds = None,
    explain: Explain = False,
    master: Master = None,
    remote: Remote = None,
    verbose: Verbose = False,
) -> None:
    """Run a pipeline until it ends, or until Ctrl-C or SIGTERM; started again, it continues where it stopped."""
    pipeline = _load(file)
    run_pipeline(pipeline, once=once, seconds=seconds, explain=explain, master=master, remote=remote, verbose=verbose)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.yaml...", help="The pipelines.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Check the structure only: no Spark, no broker, no SQL and columns.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    verbose: Verbose = False,
) -> None:
    """Check pipelines without running them: their structure, their topics, and with Spark their SQL, columns and types.

    Errors name their line and column. Exit code 0 if all are valid, 1 if not.
    """
    from barnabas.spark.pipelines import PipelineError

    sessions: list[Any] = []

    def session(pipeline: "Pipeline") -> Any:
        if not sessions:
            sessions.append(quiet_session(pipeline, master, remote, verbose=verbose))
            take_signals()  # Spark has its own handler by now
        return sessions[0]

    bad = False
    with left_at_signals() as take_signals:
        for file in files:
            try:
                output.say(f"{file}: {_validated(file, None if quick else session)}")
            except PipelineError as error:
                bad = True
                print_problems(error)
    if bad:
        raise typer.Exit(1)


def _validated(file: Path, session: "Callable[[Pipeline], Any] | None") -> str:
    """The message that a pipeline is valid, with what was not checked; raises `PipelineError` if it is not valid."""
    from barnabas.client import Unreachable
    from barnabas.spark.pipelines import Pipeline

    pipeline = Pipeline.load(file)
    valid = f"pipeline {pipeline.name} is valid"
    if session is None:
        return f"{valid} (structure only: SQL and columns were not checked)"
    try:
        pipeline.check_topics()
    except Unreachable as error:
        valid = f"{valid} (topics were not checked: {error})"
    pipeline.validate(session(pipeline))
    return valid


@app.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(help="The directory with the files.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the pipelines of a directory and their states."""
    from barnabas.spark.pipelines import Pipeline, PipelineError
    from barnabas.spark.pipelines.progress import read_progress

    found = []
    for file in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        try:
            pipeline = Pipeline.load(file)
        except PipelineError as error:
            found.append((file.name, "-", "invalid", "-", str(error.problems[0])))
            continue
        progress = read_progress(pipeline.checkpoint)
        state = "never run" if progress is None else progress.describe_state()
        when = "-" if progress is None else _ago(progress.updated_s)
        found.append((file.name, pipeline.name, state, when, ", ".join(pipeline.query_names)))
    columns = ("file", "pipeline", "state", "as of", "queries")
    if as_json:
        output.print_json([dict(zip(columns, row, strict=True)) for row in found])
    else:
        output.print_table(columns, found)


@app.command()
def status(file: File, as_json: AsJson = False) -> None:
    """Show the progress of each query of a pipeline: its last batch, sink, rows written, speed, and lag in records."""
    from barnabas.spark.pipelines.progress import last_committed, last_committed_s, read_progress

    pipeline = _load(file)
    progress = read_progress(pipeline.checkpoint)
    rows: list[tuple[object, ...]] = []
    for name in pipeline.query_names:
        query = None if progress is None else progress.queries.get(name)
        committed = last_committed(pipeline.checkpoint, name)
        committed_s = last_committed_s(pipeline.checkpoint, name)
        rows.append(
            (
                name,
                "never run" if progress is None else progress.describe_state(),
                "-" if committed is None else committed,
                "-" if committed_s is None else _ago(committed_s),
                "-" if query is None or not query.sink else query.sink,
                "-" if query is None else query.rows_written,
                "-" if query is None else query.duplicates + query.late,
                "-" if query is None else round(query.rows_per_second),
                _lag(pipeline, name),
                "-" if query is None or query.error is None else query.error,
            )
        )
    columns = ("query", "state", "last batch", "done", "sink", "rows written", "dropped", "rows read/s", "lag", "error")
    if as_json:
        output.print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    output.say(f"pipeline {pipeline.name}: {'never run' if progress is None else _ago(progress.updated_s)}")
    output.print_table(columns, rows)
    for note in [] if progress is None else progress.notes:
        output.say(note)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a pipeline file, for editors."""
    from barnabas.spark.pipelines.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command()
def translate(
    topic: Annotated[str, typer.Argument(help="The mirrored topic.")],
    group: Annotated[str, typer.Argument(help="The group of the source cluster.")],
    mirror: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Brokers of the mirror.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    to_topic: Annotated[str | None, typer.Option(help="The topic's name in the mirror, if different.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show where a group that reads a mirrored topic would continue in the mirror."""
    from barnabas.spark.pipelines.translation import translate as find

    with connection.open_bus(bootstrap) as source:
        lags = [each for each in source.describe_group(group).partitions if each.topic == topic]
    committed = {each.partition: each.offset for each in lags if each.offset is not None}
    connection.open_bus(mirror).close()  # says at once if nobody listens
    found = find(mirror, to_topic or topic, committed)
    rows = [(partition, committed[partition], offset) for partition, offset in sorted(found.items())]
    columns = ("partition", "offset", "offset in the mirror")
    if as_json:
        output.print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        output.print_table(columns, rows)


def _load(file: Path) -> "Pipeline":
    from barnabas.spark.pipelines import Pipeline, PipelineError

    try:
        return Pipeline.load(file)
    except PipelineError as error:
        print_problems(error)
        raise typer.Exit(1) from None


def _lag(pipeline: "Pipeline", query: str) -> object:
    """The lag over all topics it reads, in records; a dash if it is unknown or no broker answers."""
    from barnabas.client import BarnabasError

    try:
        behind = pipeline.records_behind(query)
    except BarnabasError:
        return "-"
    return "-" if behind is None else behind


def _ago(moment_s: float) -> str:
    seconds = max(0, int(time.time() - moment_s))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
