"""Everything an edge may use of a node: its state and its verbs, built by `node`."""

from dataclasses import dataclass

from barnabas.core.metadata.image import Image
from barnabas.runtime.clock import Clock
from barnabas.runtime.dice import Dice
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.offload import Threads
from barnabas.runtime.partition import Logs
from barnabas.services.broker_config import BrokerConfig
from barnabas.services.fetch import Fetch
from barnabas.services.fetch_sessions import FetchSessions
from barnabas.services.groups import GroupService
from barnabas.services.live_config import LiveConfig
from barnabas.services.markers import Markers
from barnabas.services.produce import Produce
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.served import ServedTopics
from barnabas.services.topics import Topics
from barnabas.services.transactions import TransactionService


@dataclass(slots=True, kw_only=True)
class Broker:
    """One node, as its edges see it."""

    config: BrokerConfig  # what it started with
    live: LiveConfig
    clock: Clock
    dice: Dice
    threads: Threads
    metadata: MetadataLog
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
    host: str = ""  # where clients are told to connect
    port: int = 0

    @property
    def image(self) -> Image:
        return self.metadata.image
