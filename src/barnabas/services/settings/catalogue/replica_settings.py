"""The settings of replicas and of who leads them, under Kafka's names: a part of `BrokerConfig`."""

from typing import Annotated, Final

import msgspec

from barnabas.core.replica.throttle import UNLIMITED_RATE
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

BOOLEAN, INT, LONG, STRING = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG, SettingType.STRING
MIB: Final = 1024 * 1024
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of how followers fetch, when they are in sync, and when preferred leaders come back."""

    replica_lag_time_max_ms: Annotated[
        int,
        About(LONG, "A follower that has not caught up with its leader for this long leaves the ISR.", at_least=1),
    ] = 30_000
    num_replica_fetchers: Annotated[
        int,
        About(
            INT,
            "How many connections this broker fetches with from each broker that it follows.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 1
    replica_fetch_max_bytes: Annotated[
        int,
        About(
            INT,
            "How many bytes of each partition a follower asks for at once. A larger batch comes whole, all the same.",
            at_least=0,
        ),
    ] = MIB
    replica_fetch_response_max_bytes: Annotated[
        int,
        About(INT, "How many bytes a follower asks for at once, of all partitions together.", at_least=0),
    ] = 10 * MIB
    replica_fetch_min_bytes: Annotated[
        int, About(INT, "A leader without this many bytes for a follower waits before it answers.", at_least=0)
    ] = 1
    replica_fetch_wait_max_ms: Annotated[
        int, About(INT, "How long a leader without new records waits before it answers a follower.", at_least=0)
    ] = 500
    replica_fetch_backoff_ms: Annotated[
        int, About(INT, "How long a follower waits before it repeats a fetch that failed.", at_least=0)
    ] = 1000
    replica_socket_timeout_ms: Annotated[
        int, About(INT, "How long a follower waits for the answer to a fetch.", at_least=1)
    ] = 30_000
    replica_high_watermark_checkpoint_interval_ms: Annotated[
        int, About(LONG, "How often the high watermarks are written to disk.", at_least=1)
    ] = 5000
    replica_selector_class: Annotated[
        str | None,
        About(
            STRING,
            "How the replica is chosen that a consumer reads from: by its rack (client.rack). Unset: the leader.",
            choices=(RACK_AWARE, RACK_AWARE.rpartition(".")[2]),
        ),
    ] = None
    leader_replication_throttled_rate: Annotated[
        int,
        About(
            LONG,
            "Bytes a second that this broker sends as a leader to replicas which are not in sync and which "
            "leader.replication.throttled.replicas of their topics names.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = UNLIMITED_RATE
    follower_replication_throttled_rate: Annotated[
        int,
        About(
            LONG,
            "Bytes a second that this broker fetches as a follower for replicas which are not in sync and which "
            "follower.replication.throttled.replicas of their topics names.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = UNLIMITED_RATE
    auto_leader_rebalance_enable: Annotated[
        bool, About(BOOLEAN, "Whether the controller has preferred leaders lead again once they are in sync.")
    ] = True
    leader_imbalance_check_interval_seconds: Annotated[
        int, About(LONG, "How often the controller looks for preferred leaders that do not lead.", at_least=1)
    ] = 300
    unclean_leader_election_interval_ms: Annotated[
        int,
        About(
            LONG,
            "How often the controller elects leaders of partitions without one whose topics allow one that is not in "
            "sync (unclean.leader.election.enable).",
            at_least=1,
        ),
    ] = 300_000
    leader_imbalance_per_broker_percentage: Annotated[
        int,
        About(
            INT,
            "In ZooKeeper-based Kafka, the share of its partitions that a broker had to miss before the controller "
            "acted. As in Kafka 4, every preferred leader comes back.",
            has_effect=False,
        ),
    ] = 10

    def __post_init__(self) -> None:
        for limit in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
            if self.replica_fetch_wait_max_ms > getattr(self, limit.replace(".", "_")):
                raise InvalidSetting(
                    "replica.fetch.wait.max.ms", f"replica.fetch.wait.max.ms must not be above {limit}"
                )
