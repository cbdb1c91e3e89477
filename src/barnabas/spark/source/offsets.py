"""Offsets of many partitions, and how they are written: the JSON of Spark's Kafka source.

`{"orders": {"0": 120, "1": 99}}`: in checkpoints, in a query's progress and in the options `startingOffsets` and
`endingOffsets`, where -2 stands for the earliest and -1 for the latest offset.

A checkpoint also has the ids of the topics, so that one which was made anew is told from the old: `"orders@ID": {}`. No
topic can have such a name, and without partitions it says nothing to Spark's own source, which reads it as well.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from barnabas.core.model import TopicPartition
from barnabas.spark.source.refusals import InvalidOption

EARLIEST: Final = -2
LATEST: Final = -1

_ID_MARK: Final = "@"  # in no topic's name

Offsets: TypeAlias = dict[TopicPartition, int]
Json: TypeAlias = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """By topic and partition, in one order always: Spark compares offsets as text."""
    found: Json = {}
    for key in sorted(offsets):
        found.setdefault(key.topic, {})[str(key.partition)] = offsets[key]
    return found


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream is: offsets, and the ids of their topics as far as they are known."""

    offsets: Offsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        ids: Json = {f"{topic}{_ID_MARK}{self.topic_ids[topic]}": {} for topic in sorted(self.topic_ids)}
        return to_json(self.offsets) | ids

    @classmethod
    def from_json(cls, written: Json) -> Self:
        named = (topic.partition(_ID_MARK) for topic in written if _ID_MARK in topic)
        return cls(from_json(written), {topic: topic_id for topic, _, topic_id in named})


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }


def parse_offsets(option: str, text: str, *, lowest: int) -> Offsets:
    """The offsets (or, `lowest` 0, the times) of an option's JSON."""
    found = {}
    for topic, partitions in _parse_topics(option, text, '{"topic": {"0": 23}}').items():
        if not isinstance(partitions, dict) or not partitions:
            raise _bad(option, text, '{"topic": {"0": 23}}')
        for partition, number in partitions.items():
            if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int) or number < lowest:
                raise _bad(option, text, f'{{"topic": {{"0": 23}}}}, with numbers from {lowest} on')
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions of `assign`: `{"topic": [0, 1]}`."""
    found = []
    for topic, partitions in _parse_topics(option, text, '{"topic": [0, 1]}').items():
        if not isinstance(partitions, list) or not partitions:
            raise _bad(option, text, '{"topic": [0, 1]}')
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
                raise _bad(option, text, '{"topic": [0, 1]}')
            found.append(TopicPartition(topic, partition))
    return tuple(sorted(set(found)))


def _parse_topics(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise _bad(option, text, example) from None
    if not isinstance(parsed, dict) or not parsed:
        raise _bad(option, text, example)
    return parsed


def _bad(option: str, text: str, example: str) -> InvalidOption:
    return InvalidOption(f"option {option!r} is {text!r}; it is written as {example}")
