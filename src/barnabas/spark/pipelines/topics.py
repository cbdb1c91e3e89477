"""The topics of a pipeline: those it reads must exist, those it writes are created.

Asked before Spark is started, which takes seconds, and over connections such as the source itself will have.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.spark.pipelines.compiling import Surroundings, dead_letters_of
from barnabas.spark.pipelines.model import PipelineModel, TopicSink, TopicSource
from barnabas.spark.pipelines.problems import Path, PipelineError, Problem
from barnabas.spark.pipelines.structure import nearest

PATIENCE_S: Final = 5.0  # somebody waits for what is said
START_PATIENCE_S: Final = 15.0  # as the source has; the broker may be starting too


def check_topics(model: PipelineModel, surroundings: Surroundings, patience_s: float) -> None:
    """Raise `PipelineError` for topics that are to be read and do not exist; `Unreachable` if no broker answers."""
    made = set(_written(model, surroundings))
    problems: list[Problem] = []
    for index, source in enumerate(model.sources):
        wanted = dict(_named(("sources", index), source)) if isinstance(source, TopicSource) else {}
        if not isinstance(source, TopicSource) or not wanted:
            continue  # what matches a pattern may come later
        bootstrap = source.bootstrap or surroundings.bootstrap
        there = _existing(bootstrap, source, surroundings, ("sources", index), patience_s)
        for path, topic in wanted.items():
            if topic not in there and (bootstrap, topic) not in made:
                hint = nearest(topic, [name for name in there if not name.startswith("__")])
                problems.append(surroundings.document.problem(path, f"topic {topic!r} does not exist: {hint}"))
    if problems:
        raise PipelineError(problems)


def create_topics(model: PipelineModel, surroundings: Surroundings) -> None:
    """Create the topics that it writes and that do not exist."""
    from barnabas.client.bus import Bus

    for (bootstrap, topic), partitions in _written(model, surroundings).items():
        with Bus(bootstrap, client_id="barnabas-pipeline") as bus:
            if topic not in {each.name for each in bus.list_topics()}:
                bus.create_topic(topic, partitions=partitions, exist_ok=True)


def _written(model: PipelineModel, surroundings: Surroundings) -> dict[tuple[str, str], int | None]:
    """By brokers and name, how many partitions each is to have."""
    wanted: dict[tuple[str, str], int | None] = {}
    for sink in model.sinks:
        if isinstance(sink, TopicSink) and sink.topic is not None:
            wanted[sink.bootstrap or surroundings.bootstrap, sink.topic] = sink.partitions
    letters = dead_letters_of(model)
    if letters is not None:
        wanted[letters.bootstrap or surroundings.bootstrap, letters.topic] = letters.partitions
    return wanted


def _named(path: Path, source: TopicSource) -> Iterator[tuple[Path, str]]:
    if source.topic is not None:
        yield (*path, "topic"), source.topic
    for index, topic in enumerate(source.topics or ()):
        yield (*path, "topics", index), topic


def _existing(
    bootstrap: str, source: TopicSource, surroundings: Surroundings, path: Path, patience_s: float
) -> list[str]:
    """All topics of the source's brokers."""
    from barnabas.client.contact import reach
    from barnabas.client.errors import Unreachable
    from barnabas.spark.source.lookup import Lookup
    from barnabas.spark.source.options import parse_options

    given = {name: str(value) for name, value in source.options.items()}
    given |= {"kafka.bootstrap.servers": bootstrap, "subscribe": "any"}
    try:
        options = parse_options(given, "stream")
        reach(bootstrap, options.address.config, patience_s)
        with closing(Lookup(options.address.settings, is_committed=True, patience_s=patience_s)) as lookup:
            return sorted(lookup.partitions(None))
    except Unreachable:
        raise
    except BarnabasError as error:  # an option that means nothing, a login that is refused
        raise PipelineError([surroundings.document.problem((*path, "options"), str(error))]) from None
