"""YAML into plain values, with the place of every value and every key.

Reads YAML as version 1.2 does: `on` and `yes` are words, 2024-05-01 is text, 10:30 is no number.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from barnabas.spark.pipelines.problems import FilePosition, Path, PipelineError, Problem

MAX_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Document:
    """The contents of a file. `keys` has the places of keys, `values` those of values."""

    value: Any
    file: str | None
    keys: dict[Path, FilePosition]
    values: dict[Path, FilePosition]
    texts: dict[Path, "_Source"] = field(default_factory=dict)

    def problem(
        self, path: Path, message: str, *, at_key: bool = False, inside: tuple[int, int] | None = None
    ) -> Problem:
        """A problem with its place: that of the nearest thing above it which the file has.

        `inside` is the line and the column within a text of several lines or few, both from 1, as Spark says of SQL.
        """
        places = self.keys if at_key else self.values
        position = places.get(path)
        if inside is not None and path in self.texts:
            position = self.texts[path].position(*inside) or position
        above = path
        while position is None and above:
            above = above[:-1]
            position = self.values.get(above)
        return Problem(message, path, position, self.file)


def parse_document(text: str, file: str | None = None) -> Document:
    """The document in a text; raises `PipelineError` if it is not YAML."""
    if len(text) > MAX_BYTES:
        raise PipelineError([Problem(f"longer than {MAX_BYTES:,} characters", file=file)])
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise PipelineError([_syntax_problem(error, file)]) from None
    except yaml.YAMLError as error:  # characters that YAML does not allow; says where, in its own words
        raise PipelineError([Problem(" ".join(str(error).split()), file=file)]) from None
    except RecursionError:
        raise PipelineError([Problem("nested too deeply", file=file)]) from None
    reader = _Reader(file, text)
    value = None if node is None else reader.read(node, ())
    if reader.problems:
        raise PipelineError(reader.problems)
    return Document(value, file, reader.keys, reader.values, reader.texts)


def as_document(value: Any) -> Document:
    """Plain values as a document without places."""
    return Document(value, None, {}, {})


@dataclass(frozen=True, slots=True)
class _Source:
    """A text of a document, and how it is written in the file, whatever the style."""

    value: str
    written: str
    start: FilePosition

    def position(self, line: int, column: int) -> FilePosition | None:
        """The place in the file of a place in the text; None if it cannot be determined."""
        lines = self.value.splitlines(keepends=True)
        index = sum(map(len, lines[: line - 1])) + column - 1
        at = 0
        for character in self.value[: index + 1]:
            if character.isspace():  # folded, indented or at the end of a line
                continue
            at = self._skip_spaces(at)
            if not self.written.startswith(character, at):
                return None  # an escape
            at += 1
        before = self.written[: max(at - 1, 0)]
        newlines = before.count("\n")
        column_at = len(before) - before.rfind("\n") if newlines else self.start.column + len(before)
        return FilePosition(self.start.line + newlines, column_at)

    def _skip_spaces(self, at: int) -> int:
        while at < len(self.written) and self.written[at].isspace():
            at += 1
        return at


class _Loader(yaml.SafeLoader):
    """SafeLoader without the surprises of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as in PyYAML


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), [*"-+0123456789"])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    [*"-+.0123456789"],
)


class _Reader:
    def __init__(self, file: str | None, text: str) -> None:
        self._file = file
        self._text = text
        self.texts: dict[Path, _Source] = {}
        self.keys: dict[Path, FilePosition] = {}
        self.values: dict[Path, FilePosition] = {}
        self.problems: list[Problem] = []

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.values[path] = _position(node.start_mark)
        if len(path) > _MAX_DEPTH:  # an anchor that holds itself, too
            self._note(node, path, "nested too deeply")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(each, (*path, index)) for index, each in enumerate(node.value)]
        return self._read_scalar(node, path)

    def _read_mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(key_node, path, "a key must be a plain scalar")
                continue
            key = str(key_node.value)
            if key in found:
                self._note(key_node, (*path, key), f"the key {key!r} is given twice")
                continue
            self.keys[(*path, key)] = _position(key_node.start_mark)
            found[key] = self.read(value_node, (*path, key))
        return found

    def _read_scalar(self, node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        match node.tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) < 40:
                return int(text)
            case "float":
                return float(text)
            case "str" | "int":
                self.texts[path] = self._source(node, text)
                return text
        self._note(node, path, f"the tag {node.tag} is not supported")
        return None

    def _source(self, node: Any, value: str) -> _Source:
        written = self._text[node.start_mark.index : node.end_mark.index]
        start = _position(node.start_mark)
        if node.style in ("|", ">"):  # what it says begins on the next line
            written = written.partition("\n")[2]
            start = FilePosition(start.line + 1, 1)
        elif node.style in ('"', "'"):
            written = written[1:]
            start = FilePosition(start.line, start.column + 1)
        return _Source(value, written, start)

    def _note(self, node: yaml.Node, path: Path, message: str) -> None:
        self.problems.append(Problem(message, path, _position(node.start_mark), self._file))


def _position(mark: yaml.Mark) -> FilePosition:
    return FilePosition(mark.line + 1, mark.column + 1)


def _syntax_problem(error: yaml.MarkedYAMLError, file: str | None) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = f"not YAML: {' '.join(filter(None, (error.context, error.problem)))}"
    return Problem(message, (), None if mark is None else _position(mark), file)
