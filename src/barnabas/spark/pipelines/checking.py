"""The rules of a pipeline that types cannot express: names that must exist, choices that exclude each other.

Needs no Spark: what only Spark can check (SQL, DDL schemas, columns) is checked when the pipeline is compiled.
"""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Final

import msgspec

from barnabas.spark.pipelines.document import Document
from barnabas.spark.pipelines.model import (
    DeltaSink,
    FilesSource,
    IcebergSink,
    JdbcSource,
    Parse,
    PipelineModel,
    Sink,
    Source,
    Step,
    TableSource,
    TopicSink,
    TopicSource,
)
from barnabas.spark.pipelines.problems import Path, PipelineError, Problem
from barnabas.spark.pipelines.structure import find_misfits, nearest

# Options of Spark's Kafka source that every source of a pipeline gives by keys of its own.
_KEYS_OF_OPTIONS: Final = {
    "kafka.bootstrap.servers": "bootstrap",
    "startingoffsets": "starting_offsets",
    "subscribe": "topics",
    "subscribepattern": "pattern",
}


def check_document(document: Document) -> PipelineModel:
    """The pipeline that a document describes; raises `PipelineError` with all problems."""
    problems = find_misfits(document, PipelineModel)
    if problems:
        raise PipelineError(_in_order(problems))
    model = msgspec.convert(document.value, PipelineModel)
    problems = list(_Rules(document, model).check())
    if problems:
        raise PipelineError(_in_order(problems))
    return model


def sink_name(sink: Sink, index: int) -> str:
    """The name of a sink: its own, or its type and place."""
    return sink.name or f"{sink.__struct_config__.tag}_{index}"


def view_of(model: PipelineModel, sink: Sink) -> str:
    """The view that a sink writes."""
    if sink.from_ is not None:
        return sink.from_
    return (model.steps or model.sources)[-1].name


def is_stream(source: Source) -> bool:
    """Whether a source goes on; the others are read as they are."""
    return isinstance(source, TopicSource) or (isinstance(source, FilesSource | TableSource) and source.stream)


def topic_source_of(model: PipelineModel) -> TopicSource | None:
    """The topic that a pipeline reads, if it is one."""
    found = [source for source in model.sources if isinstance(source, TopicSource)]
    return found[0] if len(found) == 1 and found[0].topic is not None else None


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (each.position.line, each.position.column) if each.position else (0, 0))


class _Rules:
    def __init__(self, document: Document, model: PipelineModel) -> None:
        self._document = document
        self._model = model
        self._views: list[str] = []

    def check(self) -> Iterator[Problem]:
        for index, source in enumerate(self._model.sources):
            path: Path = ("sources", index)
            yield from self._check_name(source.name, path)
            yield from self._check_source(source, path)
        if not any(is_stream(source) for source in self._model.sources):
            has_database = any(isinstance(source, JdbcSource) for source in self._model.sources)
            yield self._problem(
                ("sources",),
                "no source is a stream: give a topic, or a table or files with stream: true"
                + ("; a database is joined with one" if has_database else ""),
            )
        for index, step in enumerate(self._model.steps):
            yield from self._check_step(step, ("steps", index))
            yield from self._check_name(step.name, ("steps", index))
        yield from self._check_sinks()
        yield from self._check_dead_letters()

    def _problem(self, path: Path, message: str) -> Problem:
        return self._document.problem(path, message)

    def _check_name(self, name: str, path: Path) -> Iterator[Problem]:
        if name.lower() in (each.lower() for each in self._views):
            yield self._problem((*path, "name"), f"the name {name!r} is taken by a view above")
        self._views.append(name)

    def _check_source(self, source: Source, path: Path) -> Iterator[Problem]:
        if isinstance(source, TopicSource):
            yield from self._check_topic_source(source, path)
        elif isinstance(source, JdbcSource) and (source.table is None) == (source.query is None):
            yield self._problem(path, "jdbc needs one of 'table' and 'query'")
        elif isinstance(source, TableSource):
            yield from self._check_table(source, path)

    def _check_topic_source(self, source: TopicSource, path: Path) -> Iterator[Problem]:
        if [source.topic, source.topics, source.pattern].count(None) != 2:
            yield self._problem(path, "topic needs one of 'topic', 'topics' and 'pattern'")
        if source.starting_timestamp is not None and source.starting_offsets != "earliest":
            yield self._problem((*path, "starting_offsets"), "cannot be used with 'starting_timestamp'")
        bounds = (source.starting_timestamp or 0, source.ending_timestamp)
        if bounds[1] is not None and bounds[1] <= bounds[0]:
            yield self._problem((*path, "ending_timestamp"), "ends before it starts")
        for option in source.options:
            if option.lower() in _KEYS_OF_OPTIONS:
                key = _KEYS_OF_OPTIONS[option.lower()]
                yield self._problem((*path, "options", option), f"use the key {key!r} of the source for it")
        if source.parse is not None:
            yield from self._check_parse(source.parse, (*path, "parse"))

    def _check_table(self, source: TableSource, path: Path) -> Iterator[Problem]:
        if (source.format == "iceberg") != (source.table is not None):
            yield self._problem(path, "'table' is for format iceberg, which needs it")
        if source.version is not None and source.format != "delta":
            yield self._problem((*path, "version"), "only Delta tables have versions here")
        if source.stream and source.format == "iceberg":
            yield self._problem((*path, "stream"), "Iceberg tables cannot be read as streams yet")

    def _check_step(self, step: Step, path: Path) -> Iterator[Problem]:
        if step.sql is not None and step.python is not None:
            yield self._problem((*path, "python"), "cannot be used with 'sql'")
        if step.sql is None and step.python is None and step.parse is None and step.watermark is None:
            yield self._problem(path, "a step needs one of 'sql', 'python', 'parse' and 'watermark'")
        if step.sql is not None and step.inputs:
            yield self._problem((*path, "inputs"), "only for 'python' and 'parse': SQL names its views itself")
        if step.options and step.python is None:
            yield self._problem((*path, "options"), "only for 'python'")
        if step.python is None and len(step.inputs) > 1:
            yield self._problem((*path, "inputs"), "only a 'python' step takes several inputs")
        for index, name in enumerate(step.inputs):
            yield from self._check_view(name, (*path, "inputs", index))
        if step.parse is not None:
            yield from self._check_parse(step.parse, (*path, "parse"))

    def _check_parse(self, parse: Parse, path: Path) -> Iterator[Problem]:
        given = [parse.schema, parse.schema_file].count(None)
        if parse.format == "raw" and given != 2:
            yield self._problem(path, "format raw takes no schema")
        if parse.format != "raw" and given != 1:
            yield self._problem(path, f"format {parse.format} needs one of 'schema' and 'schema_file'")
        if parse.confluent and parse.format != "avro":
            yield self._problem((*path, "confluent"), "only for Avro")
        if parse.tombstone_keys and parse.format == "raw":
            yield self._problem((*path, "tombstone_keys"), "only for JSON and Avro")
        if parse.schema_file is not None and self._document.file is not None:
            file = FilePath(self._document.file).parent / parse.schema_file
            if not file.is_file():
                yield self._problem((*path, "schema_file"), f"file {file} does not exist")
        if parse.format == "json" and parse.schema is not None and not _looks_like_ddl(parse.schema):
            yield self._problem((*path, "schema"), "not a DDL schema such as: id long, name string")

    def _check_view(self, name: str, path: Path) -> Iterator[Problem]:
        if name not in self._views:
            yield self._problem(path, f"no view {name!r} above: {nearest(name, self._views)}")

    def _check_sinks(self) -> Iterator[Problem]:
        seen: set[str] = set()
        for index, sink in enumerate(self._model.sinks):
            path: Path = ("sinks", index)
            name = sink_name(sink, index)
            if name in seen or name == "dead_letters":
                yield self._problem((*path, "name"), f"the name {name!r} is taken by another sink")
            seen.add(name)
            if sink.from_ is not None:
                yield from self._check_view(sink.from_, (*path, "from"))
            if isinstance(sink, DeltaSink | IcebergSink) and sink.merge is not None and sink.mode == "complete":
                yield self._problem((*path, "mode"), "complete output cannot be merged")
            if isinstance(sink, TopicSink) and sink.sync_groups:
                yield from self._check_sync(sink, path)

    def _check_sync(self, sink: TopicSink, path: Path) -> Iterator[Problem]:
        source = topic_source_of(self._model)
        if source is None:
            yield self._problem((*path, "sync_groups"), "needs exactly one source of type topic, with one 'topic'")
        elif (sink.bootstrap, sink.topic) == (source.bootstrap, source.topic):
            yield self._problem((*path, "sync_groups"), "the topic is mirrored into itself")
        for index, each in enumerate(sink.sync_groups):
            try:
                re.compile(each)
            except re.error as error:
                yield self._problem((*path, "sync_groups", index), f"not a regular expression: {error}")

    def _check_dead_letters(self) -> Iterator[Problem]:
        parses = any(isinstance(each, TopicSource) and each.parse for each in self._model.sources)
        parses = parses or any(step.parse for step in self._model.steps)
        if self._model.dead_letters is not None and not parses:
            yield self._problem(("dead_letters",), "nothing is parsed, so there are no dead letters")


def _looks_like_ddl(schema: str) -> bool:
    balanced = schema.count("<") == schema.count(">") and schema.count("(") == schema.count(")")
    return balanced and re.match(r"^\s*(`[^`]+`|\w+)\s*[\s:]\s*\w+", schema) is not None
