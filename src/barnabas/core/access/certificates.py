"""Whom a client certificate stands for: the rules that turn its distinguished name into the name of a user.

    RULE:^CN=([^,]*),.*$/$1/L,DEFAULT

A rule is a regular expression (RE2's syntax) that must match all of the name, a replacement in which ``$1`` is the
first group, and ``L`` or ``U`` for lower or upper case. The first rule that matches counts; DEFAULT takes the name as
it is.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed

DEFAULT: Final = "DEFAULT"
_RULES: Final = re.compile(r"(?:DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?)(?=,|$)")
_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_GROUP: Final = re.compile(r"\\(.)|\$(\d)")
MAX_CHARS: Final = 8192


class MappingRule(NamedTuple):
    """One rule; without a pattern it takes the name as it is."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""


AS_IT_IS: Final = (MappingRule(),)


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of ``ssl.principal.mapping.rules``."""
    rules, position, text = [], 0, text.strip()
    if not text:
        return AS_IT_IS
    if len(text) > MAX_CHARS:
        raise InvalidConfig(f"the mapping rules have {len(text)} characters; the maximum is {MAX_CHARS}")
    while position < len(text):
        match = _RULES.match(text, position)
        if match is None:
            raise InvalidConfig(
                f"a mapping rule cannot be {text[position:]!r}; allowed: DEFAULT, or RULE:pattern/replacement/ with L "
                "or U at its end, separated by commas"
            )
        rules.append(_rule_of(match[0]))
        position = match.end() + 1
        while position < len(text) and text[position].isspace():
            position += 1
    return tuple(rules)


def _rule_of(text: str) -> MappingRule:
    match = _RULE.fullmatch(text)
    if match is None:
        return MappingRule()
    from barnabas.core.regexes import compiled_of  # noqa: PLC0415 - few nodes have rules

    pattern = compiled_of(match["pattern"], what="the pattern of a mapping rule")
    return MappingRule(pattern, match["replacement"], match["case"])


def user_of(distinguished_name: str, rules: Sequence[MappingRule]) -> str:
    """The user that a distinguished name stands for; refused if no rule says so."""
    for rule in rules:
        if rule.pattern is None:
            return distinguished_name
        match = rule.pattern.fullmatch(distinguished_name)
        if match is not None:
            user = _GROUP.sub(partial(_part, match), rule.replacement)
            return user.lower() if rule.case == "L" else user.upper() if rule.case == "U" else user
    raise SaslAuthenticationFailed(f"no mapping rule is for {distinguished_name!r}")


def _part(match: Any, each: re.Match[str]) -> str:
    if each[1] is not None:
        return each[1]
    number = int(each[2])
    return (match.group(number) or "") if number <= len(match.groups()) else ""
