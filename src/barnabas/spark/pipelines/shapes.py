"""What the checkpoints of a pipeline are good for: by query, where it writes, and the state that Spark keeps for it.

Written down beside the checkpoints when a pipeline starts, and compared before it starts again. Spark itself finds some
changes of a state only in the middle of a batch, and others never: it goes on with sums of something else. Of a sink
with another name it knows nothing: it would read, and write, everything again.

Where nothing was written down (a checkpoint of an earlier version, on another machine, or of a Connect server's query)
nothing is compared.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.connecting import is_connected
from barnabas.spark.pipelines.checking import sink_name
from barnabas.spark.pipelines.compiling import Query, Surroundings
from barnabas.spark.pipelines.model import DeltaSink, IcebergSink, ParquetSink, PipelineModel, Sink, TopicSink
from barnabas.spark.pipelines.problems import PipelineError, Problem
from barnabas.spark.private_files import make_private_folder, open_private
from barnabas.spark.tables.files import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_NAME: Final = "shapes.json"
_WINDOWS: Final = ("window", "session_window")
_WITH_STATE: Final = ("FlatMapGroups", "TransformWithState", "GlobalLimit", "MapGroupsWithState")


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one query. `state` is for people, one line for each operator; `windows` is what they do not say of windows."""

    target: str = ""
    state: tuple[str, ...] | None = None
    windows: tuple[str, ...] = ()


def shapes_of(model: PipelineModel, surroundings: Surroundings, queries: Sequence[Query]) -> dict[str, Shape]:
    """The shapes of compiled queries."""
    targets = {sink_name(sink, index): _target(sink, surroundings) for index, sink in enumerate(model.sinks)}
    return {query.name: _shape(query.frame, targets.get(query.name, "")) for query in queries}


def check_shapes(
    model: PipelineModel, surroundings: Surroundings, checkpoint: str, shapes: Mapping[str, Shape]
) -> None:
    """Raise `PipelineError` if a checkpoint that is there is not one of what its query does now."""
    folder = local_path(checkpoint)
    if folder is None:
        return
    known = {name: shape for name, shape in _read(folder).items() if _has_batches(folder / name)}
    problems: list[Problem] = []
    for index, sink in enumerate(model.sinks):
        name = sink_name(sink, index)
        for told in (_other_name(name, known, shapes, checkpoint), _other_state(name, known, shapes[name], checkpoint)):
            if told is not None:
                problems.append(surroundings.document.problem(("sinks", index, "name"), told))
                break
    if problems:
        raise PipelineError(problems)


def write_shapes(checkpoint: str, shapes: Mapping[str, Shape]) -> None:
    """Write them down, beside those of queries that the pipeline does not have any more."""
    folder = local_path(checkpoint)
    if folder is None:
        return
    make_private_folder(folder)
    told = {name: asdict(shape) for name, shape in {**_read(folder), **shapes}.items()}
    unfinished = folder / f".{FILE_NAME}.{os.getpid()}"
    with open_private(unfinished, "w") as file:
        json.dump(told, file, indent=2)
    unfinished.replace(folder / FILE_NAME)


def _read(folder: Path) -> dict[str, Shape]:
    try:
        found = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return {
            name: Shape(
                each["target"], None if each["state"] is None else tuple(each["state"]), tuple(each.get("windows", ()))
            )
            for name, each in found.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _has_batches(checkpoint: Path) -> bool:
    try:
        return any(name.isdigit() for name in os.listdir(checkpoint / "offsets"))
    except OSError:
        return False


def _other_name(name: str, known: Mapping[str, Shape], now: Mapping[str, Shape], checkpoint: str) -> str | None:
    """The problem that a target was written by a sink of another name, which is gone or writes elsewhere now."""
    target = now[name].target
    if not target or (name in known and known[name].target == target):
        return None
    for before, shape in known.items():
        if before != name and shape.target == target and (before not in now or now[before].target != target):
            return (
                f"{target} was written by a sink named {before!r} so far, and its checkpoint goes by that name: as "
                f"{name!r} it would begin anew, and write everything again. Name the sink {before!r}; or move "
                f"{checkpoint}/{before} to {checkpoint}/{name}; or, to begin anew, remove {checkpoint}/{before}"
            )
    return None


def _other_state(name: str, known: Mapping[str, Shape], now: Shape, checkpoint: str) -> str | None:
    before = known.get(name)
    if before is None or before.state is None or now.state is None:
        return None
    if (before.state, before.windows) == (now.state, now.windows):
        return None
    had, wants = "; ".join(before.state) or "nothing", "; ".join(now.state) or "nothing"
    is_of_windows = before.state == now.state
    change = f"{had}, with other windows" if is_of_windows else f"{had}, and the pipeline now needs {wants}"
    return (
        f"the checkpoint of {name!r} has the state of {change}: one cannot become the other. Take the change back; or "
        "give it to another sink, with another name and topic or table, which begins anew; or, to begin anew here, "
        f"remove {checkpoint}/{name}"
    )


def _target(sink: Sink, surroundings: Surroundings) -> str:
    """What a sink writes, in words; nothing where writing it again does no harm."""
    match sink:
        case TopicSink():
            where = f" at {sink.bootstrap}" if sink.bootstrap else ""
            return f"the topic {sink.topic}{where}" if sink.topic is not None else ""
        case DeltaSink() | ParquetSink():
            return f"the table {surroundings.resolve(sink.path)}"
        case IcebergSink():
            return f"the table {sink.table} in {surroundings.resolve(sink.warehouse)}"
    return ""


def _shape(frame: "DataFrame", target: str) -> Shape:
    if is_connected(frame.sparkSession):
        return Shape(target)  # the plan is where the server is
    session: Any = frame
    nodes = [node for node in _below(session._jdf.queryExecution().analyzed()) if node.isStreaming()]
    state = tuple(text for text in map(_state_of, nodes) if text)
    windows = tuple(each.sql() for node in nodes for each in _windows_of(node))
    return Shape(target, state, windows if state else ())


def _below(node: Any) -> Iterator[Any]:
    yield node
    for child in _each(node.children()):
        yield from _below(child)


def _each(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _state_of(node: Any) -> str:
    """What an operator keeps between batches, in words; nothing if it keeps nothing."""
    kind = str(node.nodeName())
    if kind == "Aggregate":
        functions = [
            f"{each.sql()} {each.dataType().simpleString()}"
            for column in _each(node.aggregateExpressions())
            for each in _below(column)
            if each.getClass().getSimpleName() == "AggregateExpression"
        ]
        groups = [each.sql() for each in _each(node.groupingExpressions())]
        return f"{', '.join(functions) or 'rows seen'} by {', '.join(groups) or 'nothing'}"
    if kind == "Distinct" or kind.startswith("Deduplicate"):
        columns = node.output() if kind == "Distinct" else node.keys()
        return f"rows seen by {', '.join(each.name() for each in _each(columns))}"
    if kind == "Join" and all(child.isStreaming() for child in _each(node.children())):
        condition = node.condition()
        return f"a {node.joinType().sql()} join on {condition.get().sql() if condition.isDefined() else 'nothing'}"
    return kind if kind.startswith(_WITH_STATE) else ""


def _windows_of(node: Any) -> list[Any]:
    """How windows of time are made of a time: their length and slide are there, not where rows are grouped by them."""
    kind = str(node.nodeName())
    if kind == "Project":
        return [each for each in _each(node.projectList()) if each.name() in _WINDOWS and _each(each.children())]
    if kind != "Expand":
        return []
    columns = [index for index, each in enumerate(_each(node.output())) if each.name() in _WINDOWS]
    return [_each(row)[index] for row in _each(node.projections()) for index in columns]
