"""Several nodes before one real broker, with leaders that a test moves, and nodes that it stops and starts."""

import dataclasses
import datetime
import socket
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from tests.support.fronts import FETCH, LIST_OFFSETS, PRODUCE, Asked, Front, Node, ask


class _Shape(NamedTuple):
    """What the parts of a request and its answer are called."""

    topics: str
    topic: str
    partitions: str
    partition: str


_REQUESTS: Final = {
    PRODUCE: _Shape("topic_data", "name", "partition_data", "index"),
    FETCH: _Shape("topics", "topic", "partitions", "partition"),
    LIST_OFFSETS: _Shape("topics", "name", "partitions", "partition_index"),
}
_ANSWERS: Final = {
    PRODUCE: _Shape("responses", "name", "partition_responses", "index"),
    FETCH: _Shape("responses", "topic", "partitions", "partition_index"),
    LIST_OFFSETS: _Shape("topics", "name", "partitions", "partition_index"),
}
_CLASSES: Final = {
    PRODUCE: ("ProduceResponse", "TopicProduceResponse", "PartitionProduceResponse"),
    FETCH: ("FetchResponse", "FetchableTopicResponse", "PartitionData"),
    LIST_OFFSETS: ("ListOffsetsResponse", "ListOffsetsTopicResponse", "ListOffsetsPartitionResponse"),
}
# What an answer without anything in it says, in the fields that have no default.
_NOTHING: Final[dict[str, Any]] = {
    "throttle_time": i32Timedelta.parse(datetime.timedelta()),
    "error_code": ErrorCode.none,
    "base_offset": -1,
    "record_errors": (),
    "high_watermark": -1,
    "aborted_transactions": None,
    "records": None,
}


class MovingLeaders(Front):
    """Partitions are led by the nodes that are up, in turn, unless a test says otherwise."""

    def __init__(self, backend: str, nodes: int = 3) -> None:
        self._chosen: dict[tuple[str, int], int | None] = {}
        self.refused = 0
        super().__init__(backend, nodes)

    def move(self, topic: str, partition: int, node_id: int | None) -> None:
        """Let a node lead a partition, or nobody."""
        self._chosen[topic, partition] = node_id

    def stop_node(self, node_id: int) -> None:
        self.nodes[node_id].stop()

    def start_node(self, node_id: int) -> None:
        self.nodes[node_id].start()

    def leader_of(self, topic: str, partition: int) -> int | None:
        up = [node.id for node in self.nodes.values() if node.is_up]
        chosen = self._chosen.get((topic, partition), 0)
        if chosen is None or chosen in up:
            return chosen
        return up[partition % len(up)] if up else None

    def answer(self, node: Node, session: Any, asked: Asked, broker: socket.socket) -> bytes:
        if asked.api_key not in _REQUESTS:
            return super().answer(node, session, asked, broker)
        assert getattr(asked.message, "acks", -1) != 0, "a request without an answer"
        led, others = self._split(node, asked)
        if not others:
            return ask(broker, asked.frame)
        self.refused += 1
        refusal = _refusal(asked, others)
        if not led:
            return asked.written_answer(refusal)
        message = dataclasses.replace(asked.message, **{_REQUESTS[asked.api_key].topics: led})
        answer = asked.read_answer(ask(broker, asked.written(message)))
        topics = _ANSWERS[asked.api_key].topics
        both = getattr(answer, topics) + getattr(refusal, topics)
        return asked.written_answer(dataclasses.replace(answer, **{topics: both}))

    def _split(self, node: Node, asked: Asked) -> tuple[tuple[Any, ...], dict[str, list[int]]]:
        """The topics with the partitions that this node leads, and the other partitions."""
        shape = _REQUESTS[asked.api_key]
        led, others = [], dict[str, list[int]]()
        for topic in getattr(asked.message, shape.topics):
            name, mine = str(getattr(topic, shape.topic)), []
            for each in getattr(topic, shape.partitions):
                index = int(getattr(each, shape.partition))
                if self.leader_of(name, index) == node.id:
                    mine.append(each)
                else:
                    others.setdefault(name, []).append(index)
            if mine:
                led.append(dataclasses.replace(topic, **{shape.partitions: tuple(mine)}))
        return tuple(led), others


def _refusal(asked: Asked, partitions: dict[str, list[int]]) -> Any:
    shape, classes = _ANSWERS[asked.api_key], asked.response_classes()
    whole, of_topic, of_partition = (getattr(classes, name) for name in _CLASSES[asked.api_key])
    moved = {"error_code": ErrorCode.not_leader_or_follower}
    topics = tuple(
        _filled(
            of_topic,
            {
                shape.topic: name,
                shape.partitions: tuple(_filled(of_partition, {shape.partition: id_, **moved}) for id_ in ids),
            },
        )
        for name, ids in partitions.items()
    )
    return _filled(whole, {shape.topics: topics})


def _filled(kind: Any, fields: dict[str, Any]) -> Any:
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: value for name, value in {**_NOTHING, **fields}.items() if name in names})
