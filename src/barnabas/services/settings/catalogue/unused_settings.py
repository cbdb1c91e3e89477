"""Dynamic settings of Kafka's broker that have no effect here: a part of `BrokerConfig`.

They are accepted, stored and shown, so that scripts which set them work. Static settings without an effect are in
`catalogue.not_ours`.
"""

import sys
from typing import Annotated, Final

import msgspec

from barnabas.core.replica.throttle import UNLIMITED_RATE
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import SettingType

_COUNT: Final = About(SettingType.INT, "In Kafka, a number of threads.", at_least=1, has_effect=False, is_dynamic=True)
_RATE: Final = About(
    SettingType.LONG,
    "In Kafka, bytes a second for moving replicas to another directory. Here there is one directory.",
    at_least=0,
    has_effect=False,
    is_dynamic=True,
)
_CLEANER_SIZE: Final = "In Kafka, memory of the compaction threads. Here compaction uses what a log needs."


class UnusedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings without an effect."""

    background_threads: Annotated[int, _COUNT] = 10
    num_network_threads: Annotated[int, _COUNT] = 3
    num_recovery_threads_per_data_dir: Annotated[int, _COUNT] = 2
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
    replica_alter_log_dirs_io_max_bytes_per_second: Annotated[int, _RATE] = UNLIMITED_RATE
