"""What the driver asks a cluster that wants TLS or SASL: the same questions, through librdkafka."""

from collections.abc import Iterable, Mapping

from barnabas.client.consuming import read_records
from barnabas.client.settings import Settings
from barnabas.client.topics import Topics
from barnabas.core.model import TopicPartition
from barnabas.spark.source.offsets import Offsets

_SAMPLE_RECORDS = 100
_SAMPLE_WAIT_S = 5.0
_OVERHEAD_BYTES = 10  # of a record in a batch, about


class SecuredLookup:
    """Asks through librdkafka."""

    def __init__(self, settings: Settings, *, is_committed: bool, patience_s: float) -> None:
        self._settings = settings
        self._is_committed = is_committed
        self._topics = Topics(settings.admin(), patience_s)

    def close(self) -> None:
        """Nothing to close: librdkafka's handle ends when it is let go."""

    def partitions(self, topics: Iterable[str] | None) -> dict[str, list[int]]:
        wanted = None if topics is None else set(topics)
        listed = [each.name for each in self._topics.list_all() if wanted is None or each.name in wanted]
        return {name: self._topics.partition_ids(name) for name in listed}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        found: Offsets = {}
        for timestamp_ms in sorted(set(wanted.values())):  # one question for each kind
            keys = [key for key, at in wanted.items() if at == timestamp_ms]
            found |= self._topics.offsets_of(keys, timestamp_ms, committed=self._is_committed)
        return found

    def bytes_per_offset(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        found = {}
        for key, start in starts.items():
            sample = list(
                read_records(self._settings, {key: start}, None, max_records=_SAMPLE_RECORDS, timeout_s=_SAMPLE_WAIT_S)
            )
            size = sum(len(each.key or b"") + len(each.value or b"") + _OVERHEAD_BYTES for each in sample)
            if sample:
                found[key] = size / (sample[-1].offset + 1 - sample[0].offset)
        return found
