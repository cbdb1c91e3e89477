"""Which tests are given to a process together."""

import pytest

pytest.importorskip("xdist", reason="pytest-xdist is not installed")

from tests.support.scheduling import handfuls


def test_tests_of_a_unit_are_together_as_they_follow_each_other_in_their_file() -> None:
    of_one = [f"tests/unit/test_one.py::test[{number}]" for number in range(100)]
    of_another = ["tests/unit/test_another.py::test"]

    found = handfuls([*of_one, *of_another])

    together = [[each for each in found if found[each] == name] for name in dict.fromkeys(found.values())]
    assert together == [of_one[:40], of_one[40:80], of_one[80:], of_another]


def test_what_is_in_a_group_or_may_be_long_is_in_none() -> None:
    assert handfuls(["tests/unit/test_one.py::test@group", "tests/system/test_serve.py::test"]) == {}


def test_an_at_sign_in_a_parameter_is_no_group() -> None:
    assert list(handfuls(["tests/unit/test_one.py::test[a@b]"])) == ["tests/unit/test_one.py::test[a@b]"]
