"""The settings of transactions on a broker, and of the topic that stores them."""

from typing import Self

import msgspec

from barnabas.core.metadata.names import TRANSACTIONS_TOPIC
from barnabas.core.metadata.topics import NOT_GIVEN, NewTopic
from barnabas.services.settings.catalogue.transaction_settings import TransactionSettings
from barnabas.services.settings.internal_topics import MAX_DECISION_BYTES


class TransactionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction settings of a broker."""

    max_timeout_ms: int
    max_ids: int = 2**31 - 1
    id_expiration_ms: int
    expiry_interval_ms: int
    topic_partitions: int
    topic_replication_factor: int | None  # None: by the size of the cluster
    topic_min_isr: int
    topic_segment_bytes: int

    @classmethod
    def of(cls, settings: TransactionSettings, *, max_ids: int = 2**31 - 1) -> Self:
        """The values of the broker's settings."""
        return cls(
            max_ids=max_ids,
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            expiry_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            topic_partitions=settings.transaction_state_log_num_partitions,
            topic_replication_factor=settings.transaction_state_log_replication_factor,
            topic_min_isr=settings.transaction_state_log_min_isr,
            topic_segment_bytes=settings.transaction_state_log_segment_bytes,
        )

    def new_topic(self) -> NewTopic:
        """The topic that stores transactions."""
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self.topic_segment_bytes),
            "max.message.bytes": str(MAX_DECISION_BYTES),
            "min.insync.replicas": str(self.topic_min_isr),
        }
        factor = NOT_GIVEN if self.topic_replication_factor is None else self.topic_replication_factor
        return NewTopic(TRANSACTIONS_TOPIC, self.topic_partitions, factor, None, settings)
