"""Plain values against the structs of `model`: everything that does not fit, not the first thing only.

Knows of no pipeline: it reads the types that msgspec tells of.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

from barnabas.spark.pipelines.document import Document
from barnabas.spark.pipelines.problems import Path, Problem


def find_misfits(document: Document, expected: type) -> list[Problem]:
    """All that keeps the document from being an `expected`."""
    return list(_Checker(document).check(document.value, inspect.type_info(expected), ()))


def nearest(word: str, words: Sequence[str]) -> str:
    """A hint at what may have been meant, or the valid words."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"there is {', '.join(words)}" if words else "there is none"


class _Checker:
    def __init__(self, document: Document) -> None:
        self._document = document

    def check(self, value: Any, expected: inspect.Type, path: Path) -> Iterator[Problem]:
        match expected:
            case inspect.Metadata():
                yield from self.check(value, expected.type, path)
            case inspect.StructType():
                yield from self._check_struct(value, expected, path)
            case inspect.UnionType():
                yield from self._check_union(value, expected, path)
            case inspect.ListType():
                yield from self._check_list(value, expected, path)
            case inspect.DictType():
                yield from self._check_dict(value, expected, path)
            case _:
                yield from self._check_plain(value, expected, path)

    def _check_struct(self, value: Any, expected: inspect.StructType, path: Path) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield self._misfit(value, "a mapping", path)
            return
        fields = {field.encode_name: field for field in expected.fields}
        known = [*fields, *([expected.tag_field] if expected.tag_field else [])]
        for key, inner in value.items():
            if key in fields:
                yield from self.check(inner, fields[key].type, (*path, key))
            elif key not in known:
                message = f"unknown key {key!r}: {nearest(str(key), known)}"
                yield self._document.problem((*path, key), message, at_key=True)
        for name, field in fields.items():
            if field.required and name not in value:
                yield self._document.problem(path, f"{_name(expected)} needs {name!r}")

    def _check_union(self, value: Any, expected: inspect.UnionType, path: Path) -> Iterator[Problem]:
        choices = [_plain(each) for each in expected.types]
        structs = [each for each in choices if isinstance(each, inspect.StructType)]
        if value is None and any(isinstance(each, inspect.NoneType) for each in choices):
            return
        if isinstance(value, dict) and structs:
            yield from self._check_tagged(value, structs, path)
            return
        found = [list(self.check(value, each, path)) for each in choices if not isinstance(each, inspect.NoneType)]
        if all(found):
            # One that says more than "not of my type" is the one that was meant.
            yield from min(found, key=lambda problems: problems[0].message.startswith("expected "))

    def _check_tagged(self, value: dict[str, Any], structs: list[inspect.StructType], path: Path) -> Iterator[Problem]:
        tagged = {str(each.tag): each for each in structs if each.tag is not None}
        if not tagged:
            yield from self._check_struct(value, structs[0], path)
            return
        tag = value.get("type")
        if tag is None:
            yield self._document.problem(path, f"needs 'type': {', '.join(tagged)}")
        elif tag not in tagged:
            message = f"unknown type {tag!r}: {nearest(str(tag), list(tagged))}"
            yield self._document.problem((*path, "type"), message)
        else:
            yield from self._check_struct(value, tagged[tag], path)

    def _check_list(self, value: Any, expected: inspect.ListType, path: Path) -> Iterator[Problem]:
        if not isinstance(value, list | tuple):
            yield self._misfit(value, "a list", path)
            return
        if len(value) < (expected.min_length or 0):
            yield self._document.problem(path, "must not be empty")
        for index, each in enumerate(value):
            yield from self.check(each, expected.item_type, (*path, index))

    def _check_dict(self, value: Any, expected: inspect.DictType, path: Path) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield self._misfit(value, "a mapping", path)
            return
        for key, each in value.items():
            yield from self.check(each, expected.value_type, (*path, key))

    def _check_plain(self, value: Any, expected: inspect.Type, path: Path) -> Iterator[Problem]:
        match expected:
            case inspect.StrType():
                yield from self._check_text(value, expected, path)
            case inspect.BoolType():
                if not isinstance(value, bool):
                    yield self._misfit(value, "true or false", path)
            case inspect.IntType() | inspect.FloatType():
                yield from self._check_number(value, expected, path)
            case inspect.LiteralType():
                if value not in expected.values:
                    hint = nearest(str(value), [str(each) for each in expected.values])
                    yield self._document.problem(path, f"{value!r} is not allowed: {hint}")
            case inspect.NoneType():
                yield self._misfit(value, "nothing", path)
            case _:
                raise TypeError(f"no rule for {expected}")

    def _check_text(self, value: Any, expected: inspect.StrType, path: Path) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield self._misfit(value, "text", path)
        elif len(value) < (expected.min_length or 0):
            yield self._document.problem(path, "must not be empty")
        elif expected.pattern is not None and not re.search(expected.pattern, value):
            yield self._document.problem(path, f"{value!r} does not match {expected.pattern}")

    def _check_number(self, value: Any, expected: inspect.IntType | inspect.FloatType, path: Path) -> Iterator[Problem]:
        wanted = int if isinstance(expected, inspect.IntType) else (int, float)
        if isinstance(value, bool) or not isinstance(value, wanted):
            yield self._misfit(value, "a whole number" if wanted is int else "a number", path)
        elif expected.ge is not None and value < expected.ge:
            yield self._document.problem(path, f"{value} is below {expected.ge}")

    def _misfit(self, value: Any, wanted: str, path: Path) -> Problem:
        return self._document.problem(path, f"expected {wanted}, not {_describe(value)}")


def _plain(expected: inspect.Type) -> inspect.Type:
    while isinstance(expected, inspect.Metadata):
        expected = expected.type
    return expected


def _name(expected: inspect.StructType) -> str:
    return str(expected.tag) if expected.tag is not None else expected.cls.__name__.removesuffix("Model").lower()


def _describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
