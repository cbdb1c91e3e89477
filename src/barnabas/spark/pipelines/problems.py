"""The problems of a pipeline, and where they are in its file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from barnabas.core.errors import BarnabasError, InvalidRequest

# Keys and indexes from the top of the document down; the empty path is the document.
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. Without a file there is a path, and no position."""

    message: str
    path: Path = ()
    position: FilePosition | None = None
    file: str | None = None

    def __str__(self) -> str:
        if self.position is not None:
            return f"{self.file or 'pipeline'}:{self.position.line}:{self.position.column}: {self.message}"
        where = ".".join(map(str, self.path))
        return f"{self.file or 'pipeline'}: {where + ': ' if where else ''}{self.message}"


class PipelineError(InvalidRequest):
    """An invalid pipeline: `problems` has everything that was found, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class PipelineFailed(BarnabasError):
    """A query of a running pipeline ended with an error."""


class PipelineRunning(BarnabasError):
    """A pipeline that is already running, and cannot be started a second time."""


_PART: Final = "_barnabas_part"


@contextmanager
def part(*path: str | int) -> Iterator[None]:
    """Whatever is raised inside is about this part of what the code outside is about; see `part_of`."""
    try:
        yield
    except Exception as error:
        setattr(error, _PART, (*path, *part_of(error)))
        raise


def part_of(error: Exception) -> Path:
    found: Path = getattr(error, _PART, ())
    return found


def silence_refusals() -> None:
    """PySpark writes what Spark refuses to stderr, as JSON with the stack of the server, and then raises it."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
