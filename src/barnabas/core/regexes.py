"""Regular expressions that clients send: RE2's syntax, in time linear in what is matched.

Owns the only use of `re2`. A text matches when all of it does. An expression that RE2 does not support (lookaround,
back references, too large) is refused, so none can block the broker.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from barnabas.core.errors import InvalidRegularExpression

# An expression comes from a client, and may be kept for as long as a member of a group has it.
MAX_REGEX_CHARS: Final = 4096
_CACHED: Final = 256


@lru_cache(maxsize=_CACHED)
def matcher_of(regex: str, *, what: str) -> Callable[[str], bool]:
    """A function that tells whether an expression matches a whole text; an invalid one is refused.

    `what` names it in the message.
    """
    if len(regex) > MAX_REGEX_CHARS:
        raise InvalidRegularExpression(f"{what} of {len(regex)} characters is over the limit of {MAX_REGEX_CHARS}.")
    options = re2.Options()
    options.log_errors = False  # it would write to stderr by itself
    try:
        re2.compile(regex, options)
        # A set of one: its match is asked without making objects, four times as fast as that of the expression.
        compiled = re2.Set.FullMatchSet(options)
        compiled.Add(regex)
        compiled.Compile()
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidRegularExpression(
            f"{what} `{_printable(regex)}` is not a valid regular expression: {_reason(error)}."
        ) from None
    match = compiled.Match
    return lambda text: match(text) is not None


def compiled_of(regex: str, *, what: str) -> Any:
    """A compiled expression, for those who need its groups; an invalid one is refused."""
    matcher_of(regex, what=what)
    return re2.compile(regex)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it is not Unicode text"
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _printable(regex: str) -> str:
    return regex.encode(errors="replace").decode()
