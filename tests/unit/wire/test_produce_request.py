"""Produce, written by hand, is what the schemas write."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.apis import PRODUCE
from barnabas.wire.produce_request import NEWEST, write_produce_request
from barnabas.wire.requests import write_request
from barnabas.wire.schemas import known_versions

BATCHES = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=20)), max_size=3)


@given(
    st.sampled_from(range(known_versions(PRODUCE.key)[0], NEWEST + 1)),
    st.none() | st.text(max_size=5),
    st.sampled_from((-1, 0, 1)),
    st.integers(0, 2**31 - 1),
    st.dictionaries(st.text(max_size=5), BATCHES, max_size=3),
)
def test_the_parts_of_a_request_are_what_the_schema_of_every_version_writes(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: dict[str, list[tuple[int, bytes]]],
) -> None:
    data = [
        {"name": name, "partition_data": [{"index": index, "records": batch} for index, batch in batches]}
        for name, batches in topics.items()
    ]
    values = {"transactional_id": transactional_id, "acks": acks, "timeout": timeout_ms, "topic_data": data}
    parts = write_produce_request(transactional_id, acks, timeout_ms, topics)
    assert b"".join(parts) == write_request(PRODUCE.key, version, values)


def test_batches_are_not_copied() -> None:
    batch = bytearray(10)
    parts = write_produce_request(None, -1, 0, {"t": [(0, batch)]})
    assert parts[-1] is batch
