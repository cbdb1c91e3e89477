"""What clients may not do to the topics in which this node keeps its groups and transactions.

To delete such a topic is to lose every group with its committed offsets, or every transactional id. To give it more
partitions does the same, since the hash of a name then leads elsewhere; so does a cleanup by age, which takes away
what nobody wrote lately. `internal.topics.alter.enable` allows all three.

What this node writes to them is held to no `max.message.bytes` that is smaller than what they are made with, whoever
sets it: no offset could be committed any more, and no transaction ended.

Writing to these topics and deleting records from them is refused where that is done: always, as in Kafka.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from barnabas.core.errors import PolicyViolation
from barnabas.core.metadata.names import is_internal
from barnabas.services.broker_config import BrokerConfig
from barnabas.services.settings import TopicConfig

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
# One decision is one batch: all of a group's members, or all offsets of one commit.
MAX_DECISION_BYTES: Final = 16 * 1024 * 1024


def check_may_alter(name: str, config: BrokerConfig, *, doing: str) -> None:
    """Refuse to do something to one of the node's own topics by which what is in it would be lost."""
    if is_internal(name) and not config.internal_topics_alter_enable:
        raise PolicyViolation(
            f"the broker keeps its own state in '{name}', and {doing} would lose it; to do so all the same, start the "
            "broker with internal.topics.alter.enable=true"
        )


def check_settings(name: str, settings: Mapping[str, str | None], config: BrokerConfig) -> None:
    """Refuse settings for one of the node's own topics by which old records in it would be deleted; None is unset."""
    if CLEANUP_POLICY in settings and (settings[CLEANUP_POLICY] or "").strip() != COMPACT:
        check_may_alter(name, config, doing=f"a {CLEANUP_POLICY} other than {COMPACT}")


def with_internal_defaults(name: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a new topic: one of the node's own is compacted, whoever makes it."""
    return {CLEANUP_POLICY: COMPACT, **settings} if is_internal(name) else settings


def with_room_for_own(name: str, config: TopicConfig) -> TopicConfig:
    """The settings that a topic is served with: one of the node's own takes whatever the node writes to it."""
    if not is_internal(name) or config.log.max_message_bytes >= MAX_DECISION_BYTES:
        return config
    log = msgspec.structs.replace(config.log, max_message_bytes=MAX_DECISION_BYTES)
    return msgspec.structs.replace(config, log=log)
