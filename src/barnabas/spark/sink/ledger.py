"""What the driver of a query intends to publish, and so what was published: one entry, of its last batch.

The entry is written, durably, when all tasks of a batch are prepared and before any of their transactions is committed.
So a batch that has no entry has published nothing, and one that has is carried out to its end by whoever finds it.

It is kept as offsets with metadata, batch id + 1 each, that the query's consumer group commits for partitions of the
progress topic which no task uses, all in one transaction of the driver's own id: a driver that was replaced cannot
write any more. Its shares are named in it as far as there is room; where there are too many, the progress of each task
tells for itself.
"""

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Final

from barnabas.client.batch_transactions import BatchTransaction
from barnabas.client.coordinators import Coordinators, read_committed_offsets
from barnabas.core.errors import CorruptRecord
from barnabas.core.model import TopicPartition
from barnabas.spark.sink.shares import PROGRESS_PARTITIONS, TASK_PARTITIONS, Prepared

_PARTITIONS: Final = range(TASK_PARTITIONS, PROGRESS_PARTITIONS)
_METADATA_BYTES: Final = 3_500  # a broker takes 4096 unless it is told otherwise; the rest is for what goes before
_KIND: Final = "barnabas-1"


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is, or is being, published."""

    batch_id: int
    token: str  # of this entry and no other
    sink: str  # the topic that all rows go to, or nothing where a column says
    digest: str  # of the source's offsets, where they are known
    shares: tuple[Prepared, ...] | None  # None: too many to name
    topics: str = ""  # up to where the batch has read them, for people; lost where there are too many shares

    def share_of(self, task: int) -> Prepared | None:
        return next((share for share in self.shares or () if share.task == task), None)


class Ledger:
    """The entry of one query, or of a batch write that has a name."""

    def __init__(self, coordinators: Coordinators, *, prefix: str, owner: str, topic: str) -> None:
        self._coordinators = coordinators
        self._group = f"{prefix}{owner}"
        self._keys = [TopicPartition(topic, partition) for partition in _PARTITIONS]

    def read(self, patience_s: float) -> Intent | None:
        """The entry, waiting for a driver that is just writing one; None where there is none."""
        found = read_committed_offsets(self._coordinators, self._group, self._keys, patience_s)
        first = found.get(self._keys[0])
        if first is None or not first[1].startswith(_KIND):
            return None
        offset, metadata = first
        _, head, payload = metadata.split("\n", 2)
        about = json.loads(head)
        for key in self._keys[1 : about["parts"]]:
            part = found.get(key)
            if part is None or part[0] != offset or not part[1].startswith(f"{about['token']}\n"):
                raise CorruptRecord(f"the progress of group {self._group!r} is incomplete: {key} does not go with it")
            payload += part[1].split("\n", 1)[1]
        shares, topics = _decode(payload) if about["parts"] else (None, "")
        return Intent(offset - 1, about["token"], about["sink"], about["digest"], shares, topics)

    def write(self, transaction: BatchTransaction, intent: Intent) -> None:
        """Put an entry in the place of the one before, in a transaction."""
        transaction.commit_offsets(self._group, self._encode(intent))

    def _encode(self, intent: Intent) -> dict[TopicPartition, tuple[int, str]]:
        payload = "" if intent.shares is None else _encode(intent.shares, intent.topics)
        parts = [payload[at : at + _METADATA_BYTES] for at in range(0, len(payload), _METADATA_BYTES)]
        if len(parts) > len(self._keys):
            parts = []
        about = {"token": intent.token, "sink": intent.sink, "digest": intent.digest, "parts": len(parts)}
        texts = [f"{_KIND}\n{json.dumps(about)}\n{parts[0] if parts else ''}"]
        texts += [f"{intent.token}\n{part}" for part in parts[1:]]
        return {key: (intent.batch_id + 1, text) for key, text in zip(self._keys, texts, strict=False)}


def _encode(shares: tuple[Prepared, ...], topics: str) -> str:
    rows = [(each.task, each.attempt, each.producer_id, each.epoch, each.row_count, each.digest) for each in shares]
    packed = zlib.compress(json.dumps([rows, topics], separators=(",", ":")).encode(), 9)
    return base64.b85encode(packed).decode()


def _decode(payload: str) -> tuple[tuple[Prepared, ...], str]:
    rows, topics = json.loads(zlib.decompress(base64.b85decode(payload)))
    return tuple(Prepared(*row) for row in rows), topics
