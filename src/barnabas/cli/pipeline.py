"""`barnabas pipeline`: run, validate, list and status of files; and the ready-made jobs, which are such files too."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from barnabas.cli.pipeline_jobs import add_jobs
from barnabas.cli.pipeline_running import Explain, Master, Once, Remote, Seconds, Verbose, run_pipeline

if TYPE_CHECKING:
    from barnabas.spark.pipelines import Pipeline

app = typer.Typer(name="pipeline", help="Pipelines on Spark: files, and ready-made jobs.", no_args_is_help=True)
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
    """Run a pipeline until it ends or is told to (Ctrl-C); started again it goes on where it was."""
    pipeline = _load(file)
    run_pipeline(pipeline, once=once, seconds=seconds, explain=explain, master=master, remote=remote, verbose=verbose)


@app.command()
def validate(files: Annotated[list[Path], typer.Argument(metavar="FILE.yaml...", help="The pipelines.")]) -> None:
    """Check pipelines without running them; what is wrong is said with its line and column."""
    from barnabas.spark.pipelines import Pipeline, PipelineError

    bad = False
    for file in files:
        try:
            pipeline = Pipeline.load(file)
        except PipelineError as error:
            bad = True
            for problem in error.problems:
                print(output.printable(str(problem)), file=sys.stderr)
        else:
            typer.echo(f"{file}: pipeline {pipeline.name} is right: {', '.join(pipeline.query_names)}")
    if bad:
        raise typer.Exit(1)


@app.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(help="Where the files are.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the pipelines of a directory and how they stand."""
    from barnabas.spark.pipelines import Pipeline, PipelineError
    from barnabas.spark.pipelines.progress import read_progress

    found = []
    for file in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        try:
            pipeline = Pipeline.load(file)
        except PipelineError as error:
            found.append((file.name, "-", "wrong", "-", str(error.problems[0])))
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
    """Show how far each query of a pipeline is: its last batch and when that was, its speed, and its lag in records."""
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
                "-" if query is None else query.rows,
                "-" if query is None else round(query.rows_per_second),
                _lag(pipeline, name),
                "-" if query is None or query.error is None else query.error,
            )
        )
    columns = ("query", "state", "last batch", "done", "rows of last run", "rows/s", "lag", "error")
    if as_json:
        output.print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    typer.echo(f"pipeline {pipeline.name}: {'never run' if progress is None else _ago(progress.updated_s)}")
    output.print_table(columns, rows)
    for note in [] if progress is None else progress.notes:
        typer.echo(note)


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
    to_topic: Annotated[str | None, typer.Option(help="Its name in the mirror, if it is another.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say where a group that reads a mirrored topic goes on in the mirror."""
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
        for problem in error.problems:
            print(output.printable(str(problem)), file=sys.stderr)
        raise typer.Exit(1) from None


def _lag(pipeline: "Pipeline", query: str) -> object:
    """Records behind, of all topics it reads; a dash if that cannot be told, or nobody answers."""
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
