"""The broker's settings of transactions, under Kafka's names: a part of `BrokerConfig`."""

from typing import Annotated

from barnabas.services.catalogue.field import About
from barnabas.services.catalogue.setting import SettingType
from barnabas.services.group_settings import GroupSettings

INT, SHORT = SettingType.INT, SettingType.SHORT
HOUR_MS = 3_600_000


class TransactionSettings(GroupSettings, frozen=True, kw_only=True):
    """Settings of transactions and of the topic they are kept in, after those of groups: a struct has one base."""

    transaction_max_timeout_ms: Annotated[
        int, About(INT, "The longest time that a producer may ask for, for a transaction to end in.", at_least=1)
    ] = 900_000
    transactional_id_expiration_ms: Annotated[
        int, About(INT, "How long a transactional id is remembered that nobody uses.", at_least=1)
    ] = 7 * 24 * HOUR_MS
    transaction_remove_expired_transaction_cleanup_interval_ms: Annotated[
        int, About(INT, "How often transactional ids are looked over for expired ones.", at_least=1)
    ] = HOUR_MS
    transaction_state_log_num_partitions: Annotated[
        int, About(INT, "Partitions of the topic of transactions, when it is made.", at_least=1)
    ] = 50
    transaction_state_log_replication_factor: Annotated[
        int, About(SHORT, "Replicas of the topic of transactions, when it is made.", at_least=1)
    ] = 1
    transaction_state_log_segment_bytes: Annotated[
        int, About(INT, "Segment size of the topic of transactions, when it is made.", at_least=1024 * 1024)
    ] = 104_857_600
