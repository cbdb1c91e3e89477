"""The lag of a query: the ends of the partitions it reads, compared with its checkpoint.

Reads the checkpoint's own files, so it needs neither a running pipeline nor Spark; only a checkpoint that is on this
machine can be read.
"""

import json
import re
from typing import Any, TypeAlias

from barnabas.client.contact import reach
from barnabas.client.lag import measure
from barnabas.client.settings import Settings
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.core.model import TopicPartition
from barnabas.spark.pipelines.checking import topic_source_of
from barnabas.spark.pipelines.model import PipelineModel, TopicSource
from barnabas.spark.pipelines.progress import last_committed
from barnabas.spark.tables.files import local_path

Reached: TypeAlias = dict[str, dict[int, int]]
_TIMEOUT_S = 5.0


def reached_offsets(checkpoint: str, query: str) -> Reached | None:
    """By topic and partition, where the last batch that is done ended; None if none is."""
    folder, batch_id = local_path(checkpoint), last_committed(checkpoint, query)
    if folder is None or batch_id is None:
        return None
    try:
        lines = (folder / query / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found: Reached = {}
    for line in lines[2:]:  # the version, then what the batch had to know, then one line for each source
        for topic, offsets in _parsed(line).items():
            if isinstance(offsets, dict) and offsets:
                found.setdefault(topic, {}).update({int(each): int(offset) for each, offset in offsets.items()})
    return found


def records_behind(model: PipelineModel, bootstrap: str, checkpoint: str, query: str) -> int | None:
    """The number of records that the query has yet to read; None if that is unknown.

    Raises if the brokers do not answer.
    """
    reached = reached_offsets(checkpoint, query)
    if reached is None:
        source = topic_source_of(model)
        if source is None or source.topic is None or source.starting_offsets != "earliest":
            return None
        reached = {source.topic: {}}
    behind = None
    for topic, offsets in reached.items():
        sources = [source for source in model.sources if isinstance(source, TopicSource) and _reads(source, topic)]
        brokers = {source.bootstrap or bootstrap for source in sources}
        if len(brokers) != 1:
            return None  # a topic of that name is read from two clusters: which of them is not said
        behind = (behind or 0) + _behind(brokers.pop(), topic, offsets)
    return behind


def _reads(source: TopicSource, topic: str) -> bool:
    if source.pattern is not None:
        return re.search(source.pattern, topic) is not None
    return topic == source.topic or topic in (source.topics or ())


def _behind(bootstrap: str, topic: str, reached: dict[int, int]) -> int:
    reach(bootstrap)
    settings = Settings(bootstrap)
    topics = Topics(settings.admin(), _TIMEOUT_S)
    keys = [TopicPartition(topic, each) for each in topics.partition_ids(topic)]
    starts, ends = topics.offsets_of(keys, EARLIEST), topics.offsets_of(keys, LATEST)
    unread = measure(settings, {key: reached.get(key.partition, 0) for key in keys}, starts, ends)
    return sum(each.lag for each in unread.values())


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
