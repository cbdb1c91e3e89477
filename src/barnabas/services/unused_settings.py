"""Settings of Kafka's broker that are altered while it runs and mean nothing here: a part of `BrokerConfig`.

They are taken, kept and shown, so that a script which sets them goes on. What has no meaning and is fixed when a broker
starts is in `catalogue.not_ours`.
"""

import sys
from typing import Annotated, Final

from barnabas.services.catalogue.field import About
from barnabas.services.catalogue.setting import SettingType
from barnabas.services.transaction_settings import TransactionSettings

_COUNT: Final = About(SettingType.INT, "In Kafka, a number of threads.", at_least=1, has_effect=False, is_dynamic=True)
_RATE: Final = About(
    SettingType.LONG,
    "In Kafka, bytes a second that moving replicas may take. Replicas cannot be moved yet.",
    at_least=0,
    has_effect=False,
    is_dynamic=True,
)
UNLIMITED_RATE: Final = 2**63 - 1
_CLEANER_SIZE: Final = "In Kafka, memory of the threads that compact. Here compaction takes what a log needs."


class UnusedSettings(TransactionSettings, frozen=True, kw_only=True):
    """Settings without an effect, after those of transactions: a struct has one base."""

    background_threads: Annotated[int, _COUNT] = 10
    num_network_threads: Annotated[int, _COUNT] = 3
    num_recovery_threads_per_data_dir: Annotated[int, _COUNT] = 2
    num_replica_fetchers: Annotated[int, _COUNT] = 1
    log_cleaner_threads: Annotated[int, _COUNT] = 1
    log_cleaner_dedupe_buffer_size: Annotated[
        int, About(SettingType.LONG, _CLEANER_SIZE, has_effect=False, is_dynamic=True)
    ] = 134_217_728
    log_cleaner_io_buffer_size: Annotated[
        int, About(SettingType.INT, _CLEANER_SIZE, at_least=0, has_effect=False, is_dynamic=True)
    ] = 524_288
    log_cleaner_io_buffer_load_factor: Annotated[
        float, About(SettingType.DOUBLE, _CLEANER_SIZE, has_effect=False, is_dynamic=True)
    ] = 0.9
    log_cleaner_io_max_bytes_per_second: Annotated[
        float,
        About(
            SettingType.DOUBLE, "In Kafka, how fast compaction may read and write.", has_effect=False, is_dynamic=True
        ),
    ] = sys.float_info.max
    leader_replication_throttled_rate: Annotated[int, _RATE] = UNLIMITED_RATE
    follower_replication_throttled_rate: Annotated[int, _RATE] = UNLIMITED_RATE
    replica_alter_log_dirs_io_max_bytes_per_second: Annotated[int, _RATE] = UNLIMITED_RATE
