"""Which topics may get dead letters: Kafka's rules of their names (KIP-1191)."""

from typing import Final

from barnabas.core.errors import InvalidConfig, InvalidTopic
from barnabas.core.metadata.names import check_topic_name

INTERNAL_PREFIX: Final = "__"


def check_letter_topic(name: str, *, prefix: str) -> None:
    """Refuse a name that no topic for dead letters may have."""
    try:
        check_topic_name(name)
    except InvalidTopic as refusal:
        raise InvalidConfig(f"'{name}' cannot be a dead-letter topic: {refusal}") from None
    if name.startswith(INTERNAL_PREFIX):
        raise InvalidConfig(f"'{name}' cannot be a dead-letter topic: names that begin with __ are internal")
    if not name.startswith(prefix):
        raise InvalidConfig(
            f"'{name}' cannot be a dead-letter topic: it must begin with '{prefix}' "
            "(errors.deadletterqueue.topic.name.prefix)"
        )
