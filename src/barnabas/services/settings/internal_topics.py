"""What clients may not do to the topics that store groups, transactions and the state of share groups.

Deleting such a topic would lose every group with its committed offsets, or every transactional id. Adding partitions
would do the same, since the hash of a name then leads to another partition; so would retention by age, which deletes
what was not written lately. `internal.topics.alter.enable` allows all three. The node's own writes are not bound by a
`max.message.bytes` smaller than the one these topics are created with: otherwise no offset could be committed, and no
transaction ended. Writing to these topics and deleting records from them is always refused, as in Kafka.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from barnabas.core.errors import PolicyViolation
from barnabas.core.metadata.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, is_internal
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.topic_config import TopicConfig

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
DELETE: Final = "delete"
RETENTION: Final = ("retention.ms", "retention.bytes")
INTERNAL_REPLICAS: Final = 3
"""The replicas of an internal topic whose setting is not given, if the cluster has as many nodes when it is created."""
# One decision is one batch: all of a group's members, or all offsets of one commit.
MAX_DECISION_BYTES: Final = 16 * 1024 * 1024


def check_may_alter(name: str, config: BrokerConfig, *, doing: str) -> None:
    """Refuse a change to an internal topic that would lose its contents."""
    if is_internal(name) and not config.internal_topics_alter_enable:
        raise PolicyViolation(
            f"'{name}' is an internal topic, and {doing} would lose its contents; to allow it, start the broker with "
            "internal.topics.alter.enable=true"
        )


def check_settings(name: str, settings: Mapping[str, str | None], config: BrokerConfig) -> None:
    """Refuse settings of an internal topic that would delete records that are needed; None is unset.

    The state of share groups is not compacted: its coordinator writes it anew, and deletes what is before that.
    """
    policy = DELETE if name == SHARE_STATE_TOPIC else COMPACT
    if CLEANUP_POLICY in settings and (settings[CLEANUP_POLICY] or "").strip() != policy:
        check_may_alter(name, config, doing=f"a {CLEANUP_POLICY} other than {policy}")
    if name == SHARE_STATE_TOPIC:
        for retention in RETENTION:
            if retention in settings and (settings[retention] or "").strip() != "-1":
                check_may_alter(name, config, doing=f"a {retention} other than -1")


def with_internal_defaults(name: str, settings: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The settings of a new topic: an internal one keeps what it has, whoever creates it."""
    if name == SHARE_STATE_TOPIC:
        return {CLEANUP_POLICY: DELETE, **dict.fromkeys(RETENTION, "-1"), **settings}
    return {CLEANUP_POLICY: COMPACT, **settings} if is_internal(name) else settings


def internal_factor(name: str, config: BrokerConfig) -> int | None:
    """The replication factor that the settings give an internal topic; None: it depends on the cluster."""
    if name == OFFSETS_TOPIC:
        return config.groups.offsets_topic_replication_factor
    if name == SHARE_STATE_TOPIC:
        return config.shares.share_coordinator_state_topic_replication_factor
    return config.transactions.transaction_state_log_replication_factor if name == TRANSACTIONS_TOPIC else None


def with_room_for_own(name: str, config: TopicConfig) -> TopicConfig:
    """The effective settings of a topic: an internal one accepts everything the node writes to it."""
    if not is_internal(name) or config.log.max_message_bytes >= MAX_DECISION_BYTES:
        return config
    log = msgspec.structs.replace(config.log, max_message_bytes=MAX_DECISION_BYTES)
    return msgspec.structs.replace(config, log=log)
