"""Which names a topic may have: Kafka's rules."""

import re
from typing import Final

from barnabas.core.errors import InvalidPartitions, InvalidTopic
from barnabas.core.model import TopicPartition

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
MAX_NAME_LENGTH: Final = 249
MAX_PARTITION_NAME_LENGTH: Final = 255  # of "topic-number": a file system has no longer names

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic can have."""
    problem = _problem_of(name)
    if problem:
        raise InvalidTopic(f"Topic name is invalid: {problem}")


def check_partition_names(topic: str, count: int) -> None:
    """Refuse a partition count for which the directory name of the last one would be too long."""
    longest = f"{topic}-{count - 1}"
    if len(longest) > MAX_PARTITION_NAME_LENGTH:
        digits = MAX_PARTITION_NAME_LENGTH - len(topic) - 1
        raise InvalidPartitions(
            f"A topic with a name of {len(topic)} characters can have {10**digits} partitions, not {count}: "
            f"the directory of the last would have a name of more than {MAX_PARTITION_NAME_LENGTH} characters."
        )


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
    """Whether the names of two topics are the same in the names of metrics. A name collides with itself."""
    return unify(name) == unify(other)


def is_internal(name: str) -> bool:
    """Whether this is an internal topic."""
    return name in INTERNAL_TOPICS
