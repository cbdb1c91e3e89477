"""Everything an edge may use of a node: its state and its verbs, built by `node`."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.metadata.image import Image
from barnabas.runtime.clock import Clock
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.dice import Dice
from barnabas.runtime.logs import Logs
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Threads
from barnabas.runtime.own_addresses import OwnAddresses
from barnabas.services.access import Access
from barnabas.services.controller import Controller
from barnabas.services.fetch import Fetch
from barnabas.services.fetch_sessions import FetchSessions
from barnabas.services.groups import GroupService
from barnabas.services.markers import Markers
from barnabas.services.membership import Membership
from barnabas.services.produce import Produce
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.quotas import Quotas
from barnabas.services.served import ServedTopics
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.live_config import LiveConfig
from barnabas.services.topics import Topics
from barnabas.services.transactions import TransactionService

if TYPE_CHECKING:
    from barnabas.runtime.controller_link import ControllerLink
    from barnabas.runtime.cut_off import CutOffWatch
    from barnabas.runtime.other_brokers import OtherBrokers
    from barnabas.runtime.repairing import Repairing
    from barnabas.runtime.replicating.fetchers import Fetchers
    from barnabas.services.acls import Acls
    from barnabas.services.authentication import Authentication
    from barnabas.services.in_sync import InSync
    from barnabas.services.led_shares import LedShares
    from barnabas.services.quorum import QuorumService
    from barnabas.services.share_fetch import ShareFetch
    from barnabas.services.share_groups import ShareGroups
    from barnabas.services.share_states import LocalShareStates
    from barnabas.services.watching import Watching


class ReplicaParts(NamedTuple):
    """What a node that has others does for partitions with several replicas."""

    fetchers: Fetchers
    in_sync: InSync
    cut_off: CutOffWatch
    watching: Watching
    repairing: Repairing


class ShareParts(NamedTuple):
    """What a node does for share groups: coordinates them, keeps states, and delivers what it leads."""

    groups: ShareGroups
    states: LocalShareStates
    led: LedShares
    fetch: ShareFetch

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the existing states, in tasks of this task group."""
        self.states.start(tasks)
        self.led.start(tasks)

    def close(self) -> None:
        """Deliver nothing more, and stop coordinating."""
        self.led.close()
        self.states.close()


@dataclass(slots=True, kw_only=True)
class Broker:
    """One node, as its edges see it."""

    config: BrokerConfig  # what it started with
    live: LiveConfig
    clock: Clock
    dice: Dice
    threads: Threads
    metadata: ClusterMetadata
    logs: Logs
    served: ServedTopics
    topics: Topics
    produce: Produce
    fetch: Fetch
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupService
    markers: Markers
    transactions: TransactionService
    shares: ShareParts
    controller: Controller | None = None
    membership: Membership | None = None
    access: Access = field(default_factory=Access)
    acls: Acls | None = None  # None: there is no authorizer
    quotas: Quotas = field(default_factory=Quotas)
    authentication: Authentication | None = None  # None: no listener asks who its clients are
    metrics: Metrics = field(default_factory=Metrics)
    refusals: Counter[tuple[str, int]] = field(default_factory=Counter)  # by the name of an API and Kafka's code
    own_addresses: OwnAddresses = field(default_factory=OwnAddresses)
    quorum: QuorumService | None = None
    link: ControllerLink | None = None  # None: there is no other node, and nothing is forwarded
    replicas: ReplicaParts | None = None  # None: there is no other node
    others: OtherBrokers | None = None  # who leads, and the way there; None in tests without a cluster

    @property
    def image(self) -> Image:
        return self.metadata.image
