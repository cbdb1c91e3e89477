"""The Python SDK: a bus to create topics on, send to and read from, over the Kafka protocol.

Owns nothing of the broker: of its code it shares the record format, the model and the errors. Everything else goes
over the wire, through librdkafka (confluent-kafka), so any Kafka cluster will do. See `bus.Bus`.
"""

from barnabas.client.bus import Bus
from barnabas.client.errors import (
    DeliveryFailed,
    RecordNotFound,
    Refused,
    TransactionAborted,
    TransactionFenced,
    TransactionInDoubt,
    TransactionTimedOut,
    Unreachable,
)
from barnabas.client.groups import GroupDetails, GroupInfo, GroupMember, OffsetChange, PartitionLag
from barnabas.client.message import Message, RecordPlace
from barnabas.client.processing import Output, Processed
from barnabas.client.producers import Delivery, Sent
from barnabas.client.rewindable import TransactionalReader
from barnabas.client.topics import KeysMove, PartitionInfo, TopicDetails, TopicInfo
from barnabas.client.transaction_admin import HangingTransaction, TransactionDetails, TransactionInfo
from barnabas.client.transactions import Transaction
from barnabas.core.errors import BarnabasError, OffsetOutOfRange, TopicExists, UnknownTopicOrPartition

__all__ = [
    "BarnabasError",
    "Bus",
    "Delivery",
    "DeliveryFailed",
    "GroupDetails",
    "GroupInfo",
    "GroupMember",
    "HangingTransaction",
    "KeysMove",
    "Message",
    "OffsetChange",
    "OffsetOutOfRange",
    "Output",
    "PartitionInfo",
    "PartitionLag",
    "Processed",
    "RecordNotFound",
    "RecordPlace",
    "Refused",
    "Sent",
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
]
