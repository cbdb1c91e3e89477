"""The broker's settings of quotas, under Kafka's names: a part of `BrokerConfig`."""

from typing import Annotated

import msgspec

from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import SettingType

INT = SettingType.INT


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of client quotas."""

    quota_window_num: Annotated[
        int,
        About(
            INT,
            "How many windows client quotas look back, the one in progress included: with the others a client may use "
            "the quota of so many windows at once, and waits for what is more.",
            at_least=2,
            at_most=3600,
        ),
    ] = 11
    quota_window_size_seconds: Annotated[
        int,
        About(
            INT,
            "The length of a window of client quotas. Also the longest delay for request_percentage, and the longest "
            "that a connection above connection_creation_rate is held before it is closed.",
            at_least=1,
            at_most=3600,
        ),
    ] = 1
    controller_quota_window_num: Annotated[
        int,
        About(
            INT,
            "How many windows' worth of controller_mutation_rate a client may use at once.",
            at_least=1,
            at_most=3600,
        ),
    ] = 11
    controller_quota_window_size_seconds: Annotated[
        int, About(INT, "The length of a window of controller_mutation_rate.", at_least=1, at_most=3600)
    ] = 1
    quota_max_tracked_clients: Annotated[
        int,
        About(
            INT,
            "Barnabas only. How many clients that are not idle have their use of quotas tracked one by one; any more "
            "share what one client may use.",
            at_least=1,
            at_most=1_000_000,
        ),
    ] = 10_000
