"""Consumer groups of a mirrored topic, synchronized to the cluster it is mirrored into: a group can continue there.

What a group has committed in the source is translated and committed for the group of the same name in the target,
again and again while the mirror runs, and once more when it has ended. There a group is only ever moved forward, and
never while it has members: a consumer in the target takes precedence. Nothing that a group has not read is skipped; at
most it reads again what the mirror had not said of yet.

Keeps no state: what it needs is in the two clusters. What fails is noted, and tried again; the mirror goes on.
"""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka

from barnabas.client.asking import Asking
from barnabas.client.brokers import Brokers
from barnabas.client.coordinators import Coordinators, commit_offsets
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, GroupIdNotFound
from barnabas.core.model import TopicPartition
from barnabas.spark.pipelines.checking import topic_source_of
from barnabas.spark.pipelines.compiling import group_of, query_names
from barnabas.spark.pipelines.model import PipelineModel, TopicSink, TopicSource
from barnabas.spark.pipelines.translation import MirroredTopic

_log = logging.getLogger("barnabas.spark")

_EVERY_S: Final = 3.0
_TIMEOUT_S: Final = 10.0
_JOIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Which groups of which topic are synchronized to which cluster.

    `groups` are names or regular expressions of whole names.
    """

    source: Settings
    topic: str
    target: Settings
    target_topic: str
    groups: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def mirrored_topics(model: PipelineModel, bootstrap: str) -> list[Mirrored]:
    """The sinks of a pipeline with groups to synchronize."""
    found = []
    for sink in model.sinks:
        source = topic_source_of(model)
        if isinstance(sink, TopicSink) and sink.sync_groups and source is not None and source.topic is not None:
            found.append(
                Mirrored(
                    source=_settings(source, bootstrap),
                    topic=source.topic,
                    target=_settings(sink, bootstrap),
                    target_topic=sink.topic or source.topic,
                    groups=tuple(sink.sync_groups),
                    left_out=_own_groups(model, source),
                )
            )
    return found


def _own_groups(model: PipelineModel, source: TopicSource) -> tuple[str, ...]:
    """The groups that show the pipeline's own progress, which are not synchronized."""
    names = query_names(model)
    return tuple(group for name in names if (group := group_of(source, name, len(names))) is not None)


def _settings(part: TopicSource | TopicSink, bootstrap: str) -> Settings:
    kafka = {name.removeprefix("kafka."): str(value) for name, value in part.options.items() if name[:6] == "kafka."}
    # A client of Kafka's own takes more settings than librdkafka: only those by which a cluster is reached count here.
    config = {name: value for name, value in kafka.items() if name.startswith(("security.", "sasl.", "ssl."))}
    return Settings(part.bootstrap or bootstrap, "barnabas-mirror", config)


def choose_groups(names: Sequence[str], wanted: Sequence[str], left_out: Sequence[str] = ()) -> list[str]:
    """The groups that are named, or match as a whole."""
    return [
        name
        for name in names
        if name not in left_out and any(name == each or re.fullmatch(each, name) for each in wanted)
    ]


def forward_only(translated: Mapping[int, int], reached: Mapping[int, int]) -> dict[int, int]:
    """The translated offsets that are ahead of the group."""
    return {partition: offset for partition, offset in translated.items() if offset > reached.get(partition, -1)}


class GroupSync:
    """One mirrored topic. `start` it in a thread of its own; `stop` does the last round."""

    def __init__(self, mirrored: Mirrored) -> None:
        self._mirrored = mirrored
        self._source = _GroupOffsets(mirrored.source)
        self._target = _GroupOffsets(mirrored.target)
        self._topic: MirroredTopic | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._notes: dict[str, str] = {}

    def start(self) -> None:
        name = f"groups of {self._mirrored.topic}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do a last round with the current offsets; then stop."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
            self._thread = None

    def notes(self) -> list[str]:
        """The state of each group, for display."""
        return [f"group {name}: {note}" for name, note in sorted(self._notes.items())]

    def sync(self) -> None:
        """Do one round. A group that fails does not affect the others."""
        mirrored = self._mirrored
        if self._topic is None:
            self._topic = MirroredTopic(mirrored.target, mirrored.target_topic)
        there = set(self._topic.partition_ids())
        notes = {}
        for group in choose_groups(self._source.names(), mirrored.groups, mirrored.left_out):
            try:
                note = self._sync_group(self._topic, group, there)
            except BarnabasError as error:
                note = f"not synchronized: {error}"
                if self._notes.get(group) != note:
                    _log.warning("group %s of %s is %s", group, mirrored.topic, note)
            if note is not None:
                notes[group] = note
        self._notes = notes

    def close(self) -> None:
        self._source.close()
        self._target.close()
        if self._topic is not None:
            self._topic.close()
            self._topic = None

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_EVERY_S):
                self._sync_or_warn()
            self._sync_or_warn()
        finally:
            self.close()

    def _sync_or_warn(self) -> None:
        try:
            self.sync()
        except BarnabasError as error:
            if self._notes.get("*") != str(error):
                _log.warning("groups of %s are not synchronized: %s", self._mirrored.topic, error)
            self._notes = {"*": str(error)}

    def _sync_group(self, topic: MirroredTopic, group: str, there: set[int]) -> str | None:
        committed = self._source.committed(group, self._mirrored.topic)
        wanted = {partition: offset for partition, offset in committed.items() if partition in there}
        if not wanted:
            return None
        translated = topic.translate(wanted)
        # Looked at last: whoever joins after this is protected by the broker, which refuses to move a group in use.
        if self._target.member_count(group):
            return "has members in the target, not synchronized"
        moved = forward_only(translated, self._target.committed(group, self._mirrored.target_topic))
        if moved:
            self._target.commit(group, self._mirrored.target_topic, moved)
        return "synchronized" if len(wanted) == len(committed) else "synchronized, but the target has fewer partitions"


class _GroupOffsets:
    """The offsets of the groups of one cluster."""

    def __init__(self, settings: Settings) -> None:
        self._admin: Any = settings.admin()
        self._asking = Asking(_TIMEOUT_S)
        # librdkafka's way to commit from outside of a group may abort the process when the broker goes away.
        self._brokers = Brokers(settings)
        self._coordinators = Coordinators(self._brokers)

    def names(self) -> list[str]:
        doing = "list the groups"
        found = self._asking.wait(self._asking.ask(self._admin.list_consumer_groups, doing=doing), doing)
        return sorted(each.group_id for each in found.valid)

    def member_count(self, group: str) -> int:
        doing = f"describe group {group!r}"
        asked = self._asking.ask(self._admin.describe_consumer_groups, [group], doing=doing)
        try:
            return len(self._asking.wait(asked[group], doing).members)
        except GroupIdNotFound:
            return 0

    def committed(self, group: str, topic: str) -> dict[int, int]:
        doing = f"read the offsets of group {group!r}"
        wanted = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
        asked = self._asking.ask(self._admin.list_consumer_group_offsets, wanted, doing=doing)
        found = self._asking.wait(asked[group], doing).topic_partitions
        return {each.partition: each.offset for each in found if each.topic == topic and each.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        doing = f"move group {group!r} in the mirror"
        keyed = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        commit_offsets(self._coordinators, group, keyed, _TIMEOUT_S, doing=doing)

    def close(self) -> None:
        self._brokers.close()
