"""Regular expressions that members of a consumer group subscribe with; see `core.regexes`."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from barnabas.core.regexes import matcher_of

_WHAT: Final = "SubscribedTopicRegex"

Sees: TypeAlias = Callable[[str], bool]
Visible: TypeAlias = Callable[[str, str], Sees | None]
"""Which topics those may see who subscribe to a group with an expression; None: it is not known yet who does."""


def sees_all(_topic: str) -> bool:
    return True


def all_visible(_group: str, _regex: str) -> Sees | None:
    """Where everybody may see every topic."""
    return sees_all


def check_regex(regex: str) -> None:
    """Refuse an invalid regular expression."""
    matcher_of(regex, what=_WHAT)


def match_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that the expression matches whole, in order."""
    return tuple(sorted(filter(matcher_of(regex, what=_WHAT), names)))
