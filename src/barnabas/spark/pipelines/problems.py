"""What is wrong with a pipeline, and where in its file."""

from dataclasses import dataclass
from typing import TypeAlias

from barnabas.core.errors import BarnabasError, InvalidRequest

# Keys and indexes from the top of the document down; the empty path is the document.
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. Without a file there is a path, and no position."""

    message: str
    path: Path = ()
    position: Position | None = None
    file: str | None = None

    def __str__(self) -> str:
        if self.position is not None:
            return f"{self.file or 'pipeline'}:{self.position.line}:{self.position.column}: {self.message}"
        where = ".".join(map(str, self.path))
        return f"{self.file or 'pipeline'}: {where + ': ' if where else ''}{self.message}"


class PipelineError(InvalidRequest):
    """A pipeline that cannot be: `problems` has everything that was found, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class PipelineFailed(BarnabasError):
    """A query of a running pipeline ended with an error."""


def silence_refusals() -> None:
    """PySpark writes what Spark refuses to stderr, as JSON with the stack of the server, and then raises it."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
