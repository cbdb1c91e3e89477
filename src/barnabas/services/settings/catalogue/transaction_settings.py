"""The broker's settings of transactions, under Kafka's names: a part of `BrokerConfig`."""

from typing import Annotated

import msgspec

from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import SettingType

INT, SHORT = SettingType.INT, SettingType.SHORT
HOUR_MS = 3_600_000


class TransactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of transactions and of the topic they are kept in."""

    transaction_max_timeout_ms: Annotated[
        int, About(INT, "The longest transaction timeout that a producer may ask for.", at_least=1)
    ] = 900_000
    transactional_id_expiration_ms: Annotated[
        int, About(INT, "How long a transactional id that is not used is kept.", at_least=1)
    ] = 7 * 24 * HOUR_MS
    transaction_remove_expired_transaction_cleanup_interval_ms: Annotated[
        int, About(INT, "How often transactional ids are checked for expired ones.", at_least=1)
    ] = HOUR_MS
    transaction_state_log_num_partitions: Annotated[
        int, About(INT, "The number of partitions of __transaction_state when it is created.", at_least=1)
    ] = 50
    transaction_state_log_replication_factor: Annotated[
        int | None,
        About(
            SHORT,
            "The replication factor of __transaction_state when it is created. Unset: 3, or as many as there are nodes "
            "then, if they are fewer.",
            at_least=1,
        ),
    ] = None
    transaction_state_log_min_isr: Annotated[
        int,
        About(
            INT,
            "The min.insync.replicas of __transaction_state when it is created, or all replicas if they are fewer.",
            at_least=1,
        ),
    ] = 2
    transaction_state_log_segment_bytes: Annotated[
        int, About(INT, "The segment size of __transaction_state when it is created.", at_least=1024 * 1024)
    ] = 104_857_600
