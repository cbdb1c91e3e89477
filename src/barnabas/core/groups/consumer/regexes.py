"""Regular expressions that members of a consumer group subscribe with; see `core.regexes`."""

from collections.abc import Iterable
from typing import Final

from barnabas.core.regexes import matcher_of

_WHAT: Final = "SubscribedTopicRegex"


def check_regex(regex: str) -> None:
    """Refuse an invalid regular expression."""
    matcher_of(regex, what=_WHAT)


def match_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that the expression matches whole, in order."""
    return tuple(sorted(filter(matcher_of(regex, what=_WHAT), names)))
