"""The Python SDK: a bus to create topics on, send to and read from, over the Kafka protocol.

Knows nothing of the broker: it shares only the record format, the model and the errors with it. Everything else goes
over the wire, through librdkafka (confluent-kafka), so it works with any Kafka cluster. See `bus.Bus`.

The names exported here are loaded on first use: a Python worker of Spark needs few of them.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.client.bus import Bus as Bus
    from barnabas.client.errors import DamagedBatch as DamagedBatch
    from barnabas.client.errors import DeliveryFailed as DeliveryFailed
    from barnabas.client.errors import RecordNotFound as RecordNotFound
    from barnabas.client.errors import Refused as Refused
    from barnabas.client.errors import TransactionAborted as TransactionAborted
    from barnabas.client.errors import TransactionFenced as TransactionFenced
    from barnabas.client.errors import TransactionInDoubt as TransactionInDoubt
    from barnabas.client.errors import TransactionTimedOut as TransactionTimedOut
    from barnabas.client.errors import Unreachable as Unreachable
    from barnabas.client.errors import Unreadable as Unreadable
    from barnabas.client.group_infos import GroupDetails as GroupDetails
    from barnabas.client.group_infos import GroupInfo as GroupInfo
    from barnabas.client.group_infos import GroupMember as GroupMember
    from barnabas.client.group_infos import OffsetChange as OffsetChange
    from barnabas.client.group_infos import PartitionLag as PartitionLag
    from barnabas.client.message import Message as Message
    from barnabas.client.message import RecordPlace as RecordPlace
    from barnabas.client.processing import Output as Output
    from barnabas.client.processing import Processed as Processed
    from barnabas.client.producers import Delivery as Delivery
    from barnabas.client.producers import Sent as Sent
    from barnabas.client.queues.job import AckInDoubt as AckInDoubt
    from barnabas.client.queues.job import Job as Job
    from barnabas.client.queues.job import LockLost as LockLost
    from barnabas.client.queues.queue import Queue as Queue
    from barnabas.client.rewindable import TransactionalReader as TransactionalReader
    from barnabas.client.scram import LoginFailed as LoginFailed
    from barnabas.client.security import TlsFailed as TlsFailed
    from barnabas.client.topics import KeysMove as KeysMove
    from barnabas.client.topics import PartitionInfo as PartitionInfo
    from barnabas.client.topics import TopicDetails as TopicDetails
    from barnabas.client.topics import TopicInfo as TopicInfo
    from barnabas.client.transaction_infos import HangingTransaction as HangingTransaction
    from barnabas.client.transaction_infos import TransactionDetails as TransactionDetails
    from barnabas.client.transaction_infos import TransactionInfo as TransactionInfo
    from barnabas.client.transactions import Transaction as Transaction
    from barnabas.core.errors import BarnabasError as BarnabasError
    from barnabas.core.errors import OffsetOutOfRange as OffsetOutOfRange
    from barnabas.core.errors import TopicExists as TopicExists
    from barnabas.core.errors import UnknownTopicOrPartition as UnknownTopicOrPartition

__all__ = [
    "AckInDoubt",
    "BarnabasError",
    "Bus",
    "DamagedBatch",
    "Delivery",
    "DeliveryFailed",
    "GroupDetails",
    "GroupInfo",
    "GroupMember",
    "HangingTransaction",
    "Job",
    "KeysMove",
    "LockLost",
    "LoginFailed",
    "Message",
    "OffsetChange",
    "OffsetOutOfRange",
    "Output",
    "PartitionInfo",
    "PartitionLag",
    "Processed",
    "Queue",
    "RecordNotFound",
    "RecordPlace",
    "Refused",
    "Sent",
    "TlsFailed",
    "TopicDetails",
    "TopicExists",
    "TopicInfo",
    "Transaction",
    "TransactionAborted",
    "TransactionDetails",
    "TransactionFenced",
    "TransactionInDoubt",
    "TransactionInfo",
    "TransactionTimedOut",
    "TransactionalReader",
    "UnknownTopicOrPartition",
    "Unreachable",
    "Unreadable",
]

_HOMES: Final = {
    "Bus": "barnabas.client.bus",
    "DeliveryFailed": "barnabas.client.errors",
    "RecordNotFound": "barnabas.client.errors",
    "Unreadable": "barnabas.client.errors",
    "DamagedBatch": "barnabas.client.errors",
    "Refused": "barnabas.client.errors",
    "TransactionAborted": "barnabas.client.errors",
    "TransactionFenced": "barnabas.client.errors",
    "TransactionInDoubt": "barnabas.client.errors",
    "TransactionTimedOut": "barnabas.client.errors",
    "Unreachable": "barnabas.client.errors",
    "GroupDetails": "barnabas.client.group_infos",
    "GroupInfo": "barnabas.client.group_infos",
    "GroupMember": "barnabas.client.group_infos",
    "OffsetChange": "barnabas.client.group_infos",
    "PartitionLag": "barnabas.client.group_infos",
    "Message": "barnabas.client.message",
    "RecordPlace": "barnabas.client.message",
    "Output": "barnabas.client.processing",
    "Processed": "barnabas.client.processing",
    "Delivery": "barnabas.client.producers",
    "Sent": "barnabas.client.producers",
    "AckInDoubt": "barnabas.client.queues.job",
    "Job": "barnabas.client.queues.job",
    "LockLost": "barnabas.client.queues.job",
    "Queue": "barnabas.client.queues.queue",
    "TransactionalReader": "barnabas.client.rewindable",
    "LoginFailed": "barnabas.client.scram",
    "TlsFailed": "barnabas.client.security",
    "KeysMove": "barnabas.client.topics",
    "PartitionInfo": "barnabas.client.topics",
    "TopicDetails": "barnabas.client.topics",
    "TopicInfo": "barnabas.client.topics",
    "HangingTransaction": "barnabas.client.transaction_infos",
    "TransactionDetails": "barnabas.client.transaction_infos",
    "TransactionInfo": "barnabas.client.transaction_infos",
    "Transaction": "barnabas.client.transactions",
    "BarnabasError": "barnabas.core.errors",
    "OffsetOutOfRange": "barnabas.core.errors",
    "TopicExists": "barnabas.core.errors",
    "UnknownTopicOrPartition": "barnabas.core.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'barnabas.client' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(home), name)
