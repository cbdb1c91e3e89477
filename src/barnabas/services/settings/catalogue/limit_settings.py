"""The broker's limits on how much clients may make it keep: a part of `BrokerConfig`. Kafka has none of them."""

from typing import Annotated, Final

import msgspec

from barnabas.runtime.connection_limits import ConnectionLimits
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import SettingType

INT: Final = SettingType.INT


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that hold without any quota."""

    max_partitions: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most partitions of all topics of the cluster; a request for more is refused. Topics "
            "that the broker needs for itself are not.",
            at_least=1,
        ),
    ] = 200_000
    max_groups: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most groups that this node coordinates; joining another, or committing offsets for it, "
            "is refused.",
            at_least=1,
        ),
    ] = 100_000
    max_transactional_ids: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most transactional ids that this node coordinates; another is refused until one that "
            "is not used has expired (transactional.id.expiration.ms).",
            at_least=1,
        ),
    ] = 100_000
    max_producer_ids_per_partition: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most idempotent producers that a partition remembers; the records of another are "
            "refused until one that is idle has expired (producer.id.expiration.ms).",
            at_least=1,
        ),
    ] = 100_000
    connection_max_requests_in_flight: Annotated[
        int,
        About(
            INT,
            "Barnabas only. Nothing more is read from a connection while so many of its requests wait for their "
            "response.",
            at_least=1,
        ),
    ] = ConnectionLimits().max_waiting
