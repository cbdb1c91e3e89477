"""The Python SDK: a bus to create topics on, send to and read from, over the Kafka protocol.

Owns nothing of the broker: of its code it shares the record format, the model and the errors. Everything else goes
over the wire, through librdkafka (confluent-kafka), so any Kafka cluster will do. See `bus.Bus`.
"""

from barnabas.client.bus import Bus
from barnabas.client.errors import (
    DeliveryFailed,
    RecordNotFound,
    Refused,
    Unreachable,
)
from barnabas.client.groups import GroupDetails, GroupInfo, GroupMember, OffsetChange, PartitionLag
from barnabas.client.message import Message, RecordPlace
from barnabas.client.producers import Delivery, Sent
from barnabas.client.topics import KeysMove, PartitionInfo, TopicDetails, TopicInfo
from barnabas.core.errors import BarnabasError, OffsetOutOfRange, TopicExists, UnknownTopicOrPartition

__all__ = [
    "BarnabasError",
    "Bus",
    "Delivery",
    "DeliveryFailed",
    "GroupDetails",
    "GroupInfo",
    "GroupMember",
    "KeysMove",
    "Message",
    "OffsetChange",
    "OffsetOutOfRange",
    "PartitionInfo",
    "PartitionLag",
    "RecordNotFound",
    "RecordPlace",
    "Refused",
    "Sent",
    "TopicDetails",
    "TopicExists",
    "TopicInfo",
    "UnknownTopicOrPartition",
    "Unreachable",
]
