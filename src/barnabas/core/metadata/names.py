"""Which names a topic may have: Kafka's rules."""

import re
from typing import Final

from barnabas.core.errors import InvalidTopic

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
MAX_NAME_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic can have."""
    problem = _problem_of(name)
    if problem:
        raise InvalidTopic(f"Topic name is invalid: {problem}")


def _problem_of(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def unify(name: str) -> str:
    """The name with every '.' as '_', which is how the names of metrics show it."""
    return name.replace(".", "_")


def collides(name: str, other: str) -> bool:
    """Whether the names of two topics cannot be told apart in the names of metrics. A name collides with itself."""
    return unify(name) == unify(other)


def is_internal(name: str) -> bool:
    """Whether the broker keeps its own state in this topic."""
    return name in INTERNAL_TOPICS
