"""Rows dealt out to partitions and encoded, without a cluster."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.partitioning import partition_for_key
from barnabas.core.errors import InvalidRecord, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, decode_batch
from barnabas.spark.sink import encoding
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.encoding import Encoded, RowEncoder

COUNTS = {"one": 1, "three": 3}
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TYPES = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
}


def arrow(rows: list[dict[str, Any]], names: list[str]) -> Any:
    return pa.RecordBatch.from_arrays([pa.array([row[name] for row in rows], TYPES[name]) for name in names], names)


def encoder(names: list[str], topic: str | None = None, batch_bytes: int = 1 << 20) -> RowEncoder:
    layout = Layout(topic, {name: place for place, name in enumerate(names)})
    return RowEncoder(layout, lambda name, _: COUNTS[name], batch_bytes=batch_bytes, codec=Codec.LZ4, level=None)


def records_of(encoded: list[Encoded]) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = defaultdict(list)
    for key, batch in encoded:
        batch.stamp(1, 0, 0, is_transactional=False)
        found[key] += decode_batch(batch.buffer)
    return found


rows = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(sorted(COUNTS)),
        "key": st.none() | st.binary(max_size=9),
        "value": st.none() | st.binary(max_size=40),
        "partition": st.none() | st.just(0),
    }
)


@given(st.lists(st.lists(rows, min_size=1, max_size=20), max_size=4), st.integers(60, 400))
def test_every_row_is_in_its_partition_once_and_in_order(chunks: list[list[dict[str, Any]]], batch_bytes: int) -> None:
    names = ["topic", "key", "value", "partition"]
    encoding_ = encoder(names, batch_bytes=batch_bytes)

    encoded = [each for chunk in chunks for each in encoding_.encode(arrow(chunk, names))]
    found = records_of([*encoded, *encoding_.rest()])

    sent = [row for chunk in chunks for row in chunk]
    assert sum(map(len, found.values())) == len(sent)
    for key, records in found.items():
        placed = [(record.key, record.value) for record in records]
        keyless_or_here = [
            (row["key"], row["value"])
            for row in sent
            if row["topic"] == key.topic and wanted(row) in (None, key.partition)
        ]
        rest = iter(keyless_or_here)
        assert all(each in rest for each in placed), "in the order they came"
        certain = [row for row in sent if row["topic"] == key.topic and wanted(row) == key.partition]
        assert all((row["key"], row["value"]) in placed for row in certain)


def wanted(row: dict[str, Any]) -> int | None:
    if row["partition"] is not None:
        return int(row["partition"])
    return None if row["key"] is None else partition_for_key(row["key"], COUNTS[row["topic"]])


def test_rows_without_a_key_stay_together_and_take_turns() -> None:
    encoding_ = encoder(["value"], "three")

    partitions = []
    for _ in range(6):
        list(encoding_.encode(arrow([{"value": b"v"}] * 5, ["value"])))
        (taken,) = records_of(list(encoding_.rest()))
        partitions.append(taken.partition)

    assert sorted(partitions[:3]) == sorted(partitions[3:]) == [0, 1, 2]


def test_not_too_much_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_HELD_BYTES", 500)
    encoding_ = encoder(["key", "value"], "three")

    given_out = list(
        encoding_.encode(arrow([{"key": b"%d" % n, "value": b"v" * 100} for n in range(9)], ["key", "value"]))
    )

    assert sum(batch.record_count for _, batch in given_out) == 9
    assert list(encoding_.rest()) == []


@pytest.mark.parametrize(
    ("row", "refusal", "said"),
    [
        ({"partition": 3}, UnknownTopicOrPartition, "topic 'three', partition 3: Unknown partition, it has 3"),
        ({"partition": -1}, InvalidRecord, "column 'partition' is -1"),
        ({"topic": None}, InvalidRecord, "column 'topic' is null"),
        ({"timestamp": -1_000_000}, InvalidRecord, "before 1970"),
        ({"headers": [None]}, InvalidRecord, "a header that is null"),
        ({"headers": [{"key": None, "value": b""}]}, InvalidRecord, "whose key is null"),
    ],
)
def test_what_cannot_be_sent(row: dict[str, Any], refusal: type[Exception], said: str) -> None:
    whole = {"topic": "three", "key": b"k", "value": b"v", "partition": None, "timestamp": 0, "headers": None, **row}
    names = list(TYPES)

    with pytest.raises(refusal, match=said):
        list(encoder(names).encode(arrow([whole], names)))
