"""One pipeline: read from a file or made of values, checked, explained, run."""

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.spark.connecting import close_session, connect, is_connected
from barnabas.spark.pipelines import compiling, shapes
from barnabas.spark.pipelines.checking import check_document
from barnabas.spark.pipelines.claiming import Claim
from barnabas.spark.pipelines.document import Document, as_document, parse_document
from barnabas.spark.pipelines.model import PipelineModel, TopicSource
from barnabas.spark.pipelines.problems import PipelineError, Problem
from barnabas.spark.pipelines.progress import PipelineProgress
from barnabas.spark.pipelines.running import RunningPipeline
from barnabas.spark.pipelines.shapes import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Pipeline:
    """A pipeline that is valid as far as can be checked without Spark: `PipelineError` has the problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.model: PipelineModel = check_document(document)
        self._surroundings = compiling.surroundings_of(document, self.model)
        self._claim = Claim(self.name, self.checkpoint)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The pipeline in a YAML file; relative paths in it are relative to it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError([Problem(f"cannot be read: {error}", file=str(path))]) from None
        return cls.from_yaml(text, file=str(path))

    @classmethod
    def from_yaml(cls, text: str, *, file: str | None = None) -> Self:
        return cls(parse_document(text, file))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The same of plain values, with the keys of the file; relative paths are relative to where this is called."""
        return cls(as_document(dict(values)))

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def checkpoint(self) -> str:
        """The directory below which each query has its own."""
        return self._surroundings.resolve(self.model.checkpoint or f".checkpoints/{self.name}")

    @property
    def query_names(self) -> list[str]:
        """One for each sink, and one for the dead letters if there can be any."""
        return compiling.query_names(self.model)

    @property
    def groups(self) -> dict[str, list[tuple[str, str]]]:
        """By query, the consumer groups that show its progress, each with its brokers."""
        names = self.query_names
        found: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            for source in self.model.sources:
                group = compiling.group_of(source, name, len(names)) if isinstance(source, TopicSource) else None
                if group is not None and isinstance(source, TopicSource):
                    found.setdefault(name, []).append((group, source.bootstrap or self._surroundings.bootstrap))
        return found

    def records_behind(self, query: str) -> int | None:
        """What a query has yet to read of its topics, by its checkpoint; None if that is unknown."""
        from barnabas.spark.pipelines.lag import records_behind

        return records_behind(self.model, self._surroundings.bootstrap, self.checkpoint, query)

    def to_yaml(self) -> str:
        """The YAML file of this pipeline."""
        import yaml

        values = msgspec.to_builtins(self.model, str_keys=True)
        text: str = yaml.safe_dump(_types_first(values), sort_keys=False, allow_unicode=True, width=110)
        return text

    def check_topics(self) -> None:
        """Raise `PipelineError` if a topic that it reads does not exist, `Unreachable` if no broker answers."""
        from barnabas.spark.pipelines import topics

        topics.check_topics(self.model, self._surroundings, topics.PATIENCE_S)

    def validate(self, spark: "SparkSession | None" = None) -> None:
        """Raise `PipelineError` if Spark would refuse it: SQL, columns, types, and whether rows fit their tables
        and the queries their checkpoints.

        Without Spark only its structure is checked, and that was done when it was made. Topics: see `check_topics`.
        """
        if spark is not None:
            queries = compiling.compile_pipeline(self.model, self._surroundings, spark)
            try:
                self._check_shapes(queries)
            finally:
                for query in queries:
                    close_session(query.frame.sparkSession)

    def _check_shapes(self, queries: list[compiling.Query]) -> dict[str, Shape]:
        """Raise `PipelineError` if a checkpoint is one of something else; what the queries are to have there."""
        found = shapes.shapes_of(self.model, self._surroundings, queries)
        shapes.check_shapes(self.model, self._surroundings, self.checkpoint, found)
        return found

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Prevents other runs of the pipeline during a block; raises `PipelineRunning` if there is one."""
        self._claim.take()
        try:
            yield
        finally:
            self._claim.release()

    def explain(self, spark: "SparkSession | None" = None, *, mode: str = "formatted") -> str:
        """The plan of each query; nothing is run."""
        parts = []
        for query in compiling.compile_pipeline(self.model, self._surroundings, spark or self.session()):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                _explainable(query.frame).explain(mode=mode)
            parts.append(f"== {self.name}.{query.name} ==\n{printed.getvalue().strip()}\n")
        return "\n".join(parts)

    def start(self, spark: "SparkSession | None" = None, *, once: bool = False) -> RunningPipeline:
        """Start all queries, and return. Topics that it writes are created if they do not exist.

        Raises `PipelineError` if it is invalid, and `PipelineRunning` if it is already running.
        """
        from barnabas.spark.pipelines.group_sync import GroupSync, mirrored_topics
        from barnabas.spark.pipelines.topics import START_PATIENCE_S, check_topics, create_topics

        self._claim.begin()
        try:
            check_topics(self.model, self._surroundings, START_PATIENCE_S)
            queries = compiling.compile_pipeline(self.model, self._surroundings, spark or self.session())
            found = self._check_shapes(queries)
            create_topics(self.model, self._surroundings)
            shapes.write_shapes(self.checkpoint, found)
            trigger = "available_now" if once else self.model.trigger
            companions = [GroupSync(each) for each in mirrored_topics(self.model, self._surroundings.bootstrap)]
            running = RunningPipeline(self.name, self.checkpoint, on_close=self._claim.release)
            return running.start(queries, trigger, companions)
        except BaseException:
            self._claim.release()
            raise

    def run(
        self,
        spark: "SparkSession | None" = None,
        *,
        once: bool = False,
        seconds: float | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[PipelineProgress], None] = lambda _: None,
    ) -> PipelineProgress:
        """Run up to the current end (`once`, or trigger available_now), for some seconds, or until `should_stop`.

        Started again it continues where it stopped, at any point; raises `PipelineFailed` if a query fails.
        """
        with self.start(spark, once=once) as running:
            return running.wait(seconds, should_stop=should_stop, on_progress=on_progress)

    def session(self, *, master: str | None = None, remote: str | None = None) -> "SparkSession":
        """The Spark session to run in: the one there is, or a local one of our own, or the one named."""
        settings = {name: str(value) for name, value in self.model.spark.items()}
        return open_session(self.name, master=master, remote=remote, settings=settings)


def open_session(
    name: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A Spark session: over Connect, on a cluster, or local on all cores."""
    from barnabas.spark.local_session import is_submitted, session

    if remote is None:
        if master is None and not is_submitted():
            master = "local[*]"
        return session(f"barnabas {name}", master=master, settings=settings)
    if master is not None:
        raise BarnabasError("a session is of a master or of a Connect server, not of both")
    return connect(remote)


def _explainable(frame: "DataFrame") -> "DataFrame":
    """A frame of which Spark knows that it is a stream: over Connect, the plan of SQL looks like a batch's to it."""
    if not is_connected(frame.sparkSession):
        return frame
    frame.createOrReplaceTempView("_explained")
    stream: DataFrame = frame.sparkSession.readStream.table("_explained")
    return stream


def _types_first(value: Any) -> Any:
    """As people write it: name and type before the rest."""
    if isinstance(value, list):
        return [_types_first(each) for each in value]
    if not isinstance(value, dict):
        return value
    leading = [key for key in ("name", "type") if key in value]
    return {key: _types_first(value[key]) for key in [*leading, *(each for each in value if each not in leading)]}
