"""Regular expressions of subscriptions: RE2's, whole names, and never slow."""

import pytest

from barnabas.core.errors import InvalidRegularExpression
from barnabas.core.groups.consumer.regexes import check_regex, match_topics
from barnabas.core.regexes import MAX_REGEX_CHARS


def test_the_whole_name_must_match() -> None:
    assert match_topics("order", ["order", "orders", "an-order"]) == ("order",)
    assert match_topics("order.*", ["orders", "order", "an-order"]) == ("order", "orders")


def test_an_empty_expression_matches_nothing_that_has_a_name() -> None:
    assert match_topics("", ["a"]) == ()


@pytest.mark.parametrize(
    ("regex", "matched"),
    [
        ("a|b", ("a", "b")),
        ("[[:alpha:]]", ("a", "b")),
        (r"\d+", ("12",)),
        (r"\Qx.y\E", ("x.y",)),
        ("(?i)A", ("a",)),
        ("x.y", ("x-y", "x.y")),
        ("(?:a)(?P<n>)", ("a",)),
    ],
)
def test_the_syntax_is_re2s(regex: str, matched: tuple[str, ...]) -> None:
    assert match_topics(regex, ["a", "b", "12", "x.y", "x-y"]) == matched


@pytest.mark.parametrize(
    "regex", ["(a", "a)", "[a", "*", "a**", "(?=a)", "(?<!a)b", r"(a)\1", "a{1001}", "(a{500}){500}", "\\", "\ud800"]
)
def test_what_re2_does_not_take_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegularExpression) as refusal:
        check_regex(regex)
    assert refusal.value.kafka_code == 128
    str(refusal.value).encode()  # can be sent


def test_a_refusal_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRegularExpression, match=r"`\(a` is not a valid regular expression: missing \): \(a"):
        check_regex("(a")
    assert capfd.readouterr().err == ""


def test_an_expression_that_is_too_long_is_refused() -> None:
    check_regex("a" * MAX_REGEX_CHARS)
    with pytest.raises(InvalidRegularExpression, match="over the limit"):
        check_regex("a" * (MAX_REGEX_CHARS + 1))


def test_a_pattern_that_others_take_for_ever_over_is_matched_at_once() -> None:
    # A backtracking matcher would try each of 2**249 ways; the test would not end.
    name = "a" * 248 + "!"
    assert match_topics("(a|a)*", [name]) == ()
    assert match_topics("(a*)*b", [name]) == ()
    assert match_topics("(x+x+)+y", ["x" * 249]) == ()
