"""The four walks in docs/ARCHITECTURE.md: every function that they name exists, and their numbers go up by one."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "## Four walks\n"
STEP = re.compile(r"^(\d+)\. `([\w.]+)` \(`([\w/]+\.py)`\): \S", re.MULTILINE)


def _walks() -> dict[str, str]:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    _, *parts = section.split("\n### ")
    return {part.split(":", 1)[0]: part for part in parts}


def _functions(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name"))
    return found


def test_there_are_four_walks() -> None:
    assert list(_walks()) == ["A produce", "A fetch", "A join", "A row from Spark"]


@pytest.mark.parametrize("walk", ["A produce", "A fetch", "A join", "A row from Spark"])
def test_every_step_of_a_walk_is_a_function_in_its_file(walk: str) -> None:
    text = _walks()[walk]
    steps = STEP.findall(text)
    assert [int(number) for number, _, _ in steps] == list(
        range(1, len(re.findall(r"^\d+\. ", text, re.MULTILINE)) + 1)
    )
    missing = [
        f"{name} in {file}" for _, name, file in steps if name not in _functions(ROOT / "src" / "barnabas" / file)
    ]
    assert missing == []
