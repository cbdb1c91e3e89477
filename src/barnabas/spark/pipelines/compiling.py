"""A pipeline as plain Structured Streaming: frames, and how each is written.

Each sink is a separate query with its own views, in its own session: so each has its own checkpoint and its own
consumer group, and none waits for another. Nothing is run here.
"""

import os
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.spark.connecting import is_connected, new_session
from barnabas.spark.pipelines import parsing
from barnabas.spark.pipelines.checking import sink_name, view_of
from barnabas.spark.pipelines.document import Document
from barnabas.spark.pipelines.model import (
    DeadLetters,
    FilesSource,
    JdbcSource,
    Parse,
    PipelineModel,
    Source,
    Step,
    TableSource,
    TopicSource,
)
from barnabas.spark.pipelines.modules import find_function
from barnabas.spark.pipelines.problems import Path as DocumentPath
from barnabas.spark.pipelines.problems import PipelineError, Problem, part, part_of
from barnabas.spark.pipelines.progress import ROWS_WRITTEN
from barnabas.spark.pipelines.reasons import reason_of
from barnabas.spark.pipelines.writing import Writer, describe_sink, is_counted, output_mode, topic_writer, writer_of
from barnabas.spark.tables.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEAD_LETTERS: Final = "dead_letters"
_MODE_CHECK: Final = "spark.sql.streaming.unsupportedOperationCheck"
# Spark says where in SQL in three ways, and counts columns from 0 or from 1.
_INSIDE: Final = re.compile(r"\bline (?P<line>\d+),? pos(?:ition (?P<from_1>\d+)| (?P<from_0>\d+))")
# What a pipeline needs of Spark: a batch that is run again must have the same tasks, and a bad record must not end it.
_SESSION: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Query:
    """One stream, ready to be started."""

    name: str
    frame: "DataFrame"
    writer: Writer
    sink: str = ""  # where it writes to, for people


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of a pipeline: where its file is, and the brokers if it names none."""

    document: Document
    base: Path
    bootstrap: str

    def resolve(self, path: str) -> str:
        """A path as Spark takes it: those of this machine from the place of the file."""
        return path if "://" in path or path.startswith("file:") else str((self.base / path).absolute())


def surroundings_of(document: Document, model: PipelineModel) -> Surroundings:
    base = Path(document.file).absolute().parent if document.file else Path.cwd()
    bootstrap = model.bootstrap or os.environ.get("BARNABAS_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    return Surroundings(document, base, bootstrap)


def dead_letters_of(model: PipelineModel) -> DeadLetters | None:
    """Where bad records go: by default into a topic named after the pipeline. None if nothing is parsed."""
    clauses = [each.parse for each in (*model.sources, *model.steps) if not isinstance(each, _UNPARSED)]
    if not any(clause is not None and (clause.format != "raw" or clause.checks) for clause in clauses):
        return None
    if isinstance(model.dead_letters, DeadLetters):
        return model.dead_letters
    return DeadLetters(topic=model.dead_letters or f"{model.name}.dead-letters")


_UNPARSED = (FilesSource, TableSource, JdbcSource)


def group_of(source: TopicSource, query: str, count: int) -> str | None:
    """The consumer group that shows the progress of a query; one for each query."""
    if source.group is None or count == 1:
        return source.group
    return f"{source.group}.{query}"


def query_names(model: PipelineModel) -> list[str]:
    """The queries that a pipeline becomes."""
    names = [sink_name(sink, index) for index, sink in enumerate(model.sinks)]
    return names if dead_letters_of(model) is None else [*names, DEAD_LETTERS]


def compile_pipeline(model: PipelineModel, surroundings: Surroundings, spark: "SparkSession") -> list[Query]:
    """The queries of a pipeline; what Spark refuses is a `PipelineError` with its place in the file."""
    queries: list[Query] = []
    problems: dict[str, Problem] = {}
    for index in range(len(model.sinks)):
        try:
            queries.append(_compile_sink(model, surroundings, spark, index))
        except PipelineError as error:  # a view that is wrong is so for every sink
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise PipelineError(list(problems.values()))
    letters = dead_letters_of(model)
    if letters is not None:
        views = _Views(model, surroundings, _session(spark, model), DEAD_LETTERS)
        views.build()
        frame = reduce(lambda left, right: left.unionByName(right), views.dead)
        writer = topic_writer(letters.topic, letters.bootstrap or surroundings.bootstrap, {})
        queries.append(Query(DEAD_LETTERS, frame, writer, f"topic {letters.topic}"))
    return queries


def _compile_sink(model: PipelineModel, surroundings: Surroundings, spark: "SparkSession", index: int) -> Query:
    name, sink = query_names(model)[index], model.sinks[index]
    views = _Views(model, surroundings, _session(spark, model), name)
    views.build()
    with _placed(surroundings, ("sinks", index)):
        frame, writer = writer_of(sink, views.frames[view_of(model, sink)], surroundings)
        with part("mode"):
            _refuse_mode(frame, output_mode(sink))
    return Query(name, frame if is_counted(sink) else _counted(frame), writer, describe_sink(sink))


def _refuse_mode(frame: "DataFrame", mode: str) -> None:
    """Refuse an output mode that Spark would refuse when the query is started, over Connect only then."""
    session: Any = frame.sparkSession
    if is_connected(session) or session.conf.get(_MODE_CHECK, "true") != "true":
        return
    java = session._jvm.org.apache.spark.sql
    wanted = getattr(java.streaming.OutputMode, mode.capitalize())()
    checker = java.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), wanted)


def _counted(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return frame.observe(ROWS_WRITTEN, F.count(F.lit(1)).alias("rows"))


def _session(spark: "SparkSession", model: PipelineModel) -> "SparkSession":
    session = new_session(spark)
    if not is_connected(session):
        _register_sources(session)
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in model.spark.items()}
    for name, value in {**_SESSION, **given}.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def _register_sources(session: "SparkSession") -> None:
    """Give a session data sources of its own.

    Spark finds them by itself too, but as one object for all sessions, with a map that every query changes when it
    starts, without a lock. Now and then that breaks it, and no task can be sent any more as long as the JVM lives.
    """
    from barnabas.spark.source.data_source import BarnabasDataSource
    from barnabas.spark.tables.source import TableDataSource

    for source in (BarnabasDataSource, TableDataSource):
        session.dataSource.register(source)


class _Views:
    """The views of one query, and the dead letters on the way to them."""

    def __init__(self, model: PipelineModel, surroundings: Surroundings, spark: "SparkSession", query: str) -> None:
        self._model = model
        self._surroundings = surroundings
        self._spark = spark
        self._query = query
        self.frames: dict[str, DataFrame] = {}
        self.dead: list[DataFrame] = []

    def build(self) -> None:
        for index, source in enumerate(self._model.sources):
            with _placed(self._surroundings, ("sources", index)):
                frame = self._read(source)
            if isinstance(source, TopicSource) and source.parse is not None:
                frame = self._parse(frame, source.parse, ("sources", index, "parse"))
            self._add(source, frame, ("sources", index))
        for index, step in enumerate(self._model.steps):
            self._add(step, self._run_step(step, ("steps", index)), ("steps", index))

    def _add(self, part: Source | Step, frame: "DataFrame", path: DocumentPath) -> None:
        watermark = getattr(part, "watermark", None)
        if watermark is not None:
            with _placed(self._surroundings, (*path, "watermark")):
                frame = frame.withWatermark(watermark.column, watermark.delay)
        frame.createOrReplaceTempView(part.name)
        self.frames[part.name] = frame

    def _parse(self, frame: "DataFrame", parse: Parse, path: DocumentPath) -> "DataFrame":
        with _placed(self._surroundings, path):
            halves = parsing.split(frame, parse, base=self._surroundings.base, pipeline=self._model.name)
        if parse.format != "raw" or parse.checks:
            self.dead.append(halves.dead)
        return halves.good

    def _read(self, source: Source) -> "DataFrame":
        match source:
            case TopicSource():
                return self._read_topics(source)
            case FilesSource():
                return self._read_files(source)
            case TableSource():
                return self._read_table(source)
            case JdbcSource():
                reader = self._spark.read.format("jdbc").option("url", source.url)
                name, text = ("dbtable", source.table) if source.table is not None else ("query", source.query)
                return reader.option(name, text).options(**source.options).load()

    def _read_topics(self, source: TopicSource) -> "DataFrame":
        options: dict[str, Any] = {
            "kafka.bootstrap.servers": source.bootstrap or self._surroundings.bootstrap,
            "subscribePattern" if source.pattern else "subscribe": source.pattern
            or ",".join(source.topics or [source.topic or ""]),
            "includeHeaders": "true",
        }
        if source.starting_timestamp is not None:
            options["startingTimestamp"] = source.starting_timestamp
            options["startingOffsetsByTimestampStrategy"] = "latest"
        else:
            options["startingOffsets"] = source.starting_offsets
        if source.max_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = source.max_per_trigger
        group = group_of(source, self._query, len(query_names(self._model)))
        if group is not None:
            options["group"] = group
        frame = self._spark.readStream.format("barnabas").options(**options, **source.options).load()
        if source.starting_timestamp is not None:
            frame = frame.where(f"timestamp >= timestamp_millis({source.starting_timestamp})")
        if source.ending_timestamp is not None:
            frame = frame.where(f"timestamp < timestamp_millis({source.ending_timestamp})")
        return frame

    def _read_files(self, source: FilesSource) -> "DataFrame":
        path = self._surroundings.resolve(source.path)
        schema: Any = source.schema
        if schema is None and source.stream and source.format != "text":
            schema = self._spark.read.format(source.format).options(**source.options).load(path).schema
        reader: Any = self._spark.readStream if source.stream else self._spark.read
        reader = reader.format(source.format).options(**source.options)
        frame: DataFrame = (reader if schema is None else reader.schema(schema)).load(path)
        return frame

    def _read_table(self, source: TableSource) -> "DataFrame":
        path = self._surroundings.resolve(source.path)
        reader: Any = self._spark.readStream if source.stream else self._spark.read
        if source.format == "parquet":
            if source.stream:
                reader = reader.schema(self._spark.read.parquet(path).schema)
            parquet: DataFrame = reader.options(**source.options).parquet(path)
            return parquet
        settings = TableSettings(source.format, path, table=source.table, version=source.version)
        frame: DataFrame = reader.format("barnabas-table").options(**settings.to_options()).load()
        return frame

    def _run_step(self, step: Step, path: DocumentPath) -> "DataFrame":
        inputs = [self.frames[name] for name in step.inputs] or [list(self.frames.values())[-1]]
        frame = inputs[0]
        if step.sql is not None:
            with _placed(self._surroundings, (*path, "sql")):
                frame = self._spark.sql(step.sql)
                _ = frame.columns  # over Connect a frame is looked at when it is asked, not before
        elif step.python is not None:
            with _placed(self._surroundings, (*path, "python")):
                frame = self._call(step.python, inputs, step.options)
        if step.parse is not None:
            frame = self._parse(frame, step.parse, (*path, "parse"))
        return frame

    def _call(self, target: str, inputs: "list[DataFrame]", options: Mapping[str, Any]) -> "DataFrame":
        function = find_function(target, self._surroundings.base)
        made = function(*inputs, **options)
        if not hasattr(made, "writeStream"):
            raise BarnabasError(f"{target} returned {type(made).__name__}, not a DataFrame")
        _ = made.columns  # as with SQL
        return made  # type: ignore[no-any-return]


@contextmanager
def _placed(surroundings: Surroundings, path: DocumentPath) -> "Iterator[None]":
    """Add the place in the file to refusals of Spark and of ours."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PipelineError:
        raise
    except (BarnabasError, PySparkException) as error:
        raise PipelineError([_problem_of(error, surroundings.document, path)]) from None
    except Exception as error:
        # What Java throws and PySpark has no name for; its text is a wall, with the stack of Java. Not over Connect.
        if type(error).__name__ != "Py4JJavaError":
            raise
        raise PipelineError([_problem_of(error, surroundings.document, path)]) from None


def _problem_of(error: Exception, document: Document, path: DocumentPath) -> Problem:
    """A refusal with its place in the file, and within the SQL if it says one."""
    whole = (*path, *part_of(error))
    found = _INSIDE.search(str(error))
    if found is None:
        return document.problem(whole, _reason_of(error))
    line = int(found["line"])
    column = int(found["from_1"]) if found["from_1"] else int(found["from_0"]) + 1
    return document.problem(
        whole, f"{_reason_of(error)} (line {line}, column {column} of this text)", inside=(line, column)
    )


def _reason_of(error: Exception) -> str:
    """The message of an error, without the plan and the stack that Spark adds."""
    return reason_of(str(getattr(error, "desc", None) or error)) if str(error).strip() else type(error).__name__
