"""The answer to ListOffsets, read by hand, is what the schemas wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.apis import LIST_OFFSETS
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.listed_offsets import NEWEST, read_listed_offsets
from barnabas.wire.responses import write_response
from barnabas.wire.schemas import known_versions

VERSIONS = range(known_versions(LIST_OFFSETS.key)[0], NEWEST + 1)
ROWS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 120), st.integers(-1, 2**63 - 1)), max_size=3)
Topics = dict[str, list[tuple[int, int, int]]]


def answer_of(version: int, topics: Topics) -> memoryview:
    answers = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "error_code": code, "offset": offset, "timestamp": 5, "leader_epoch": 3}
                for index, code, offset in rows
            ],
        }
        for name, rows in topics.items()
    ]
    return memoryview(write_response(LIST_OFFSETS.key, version, {"topics": answers, "throttle_time": 7}))


@given(st.sampled_from(VERSIONS), st.dictionaries(st.text(max_size=5), ROWS, max_size=3))
def test_an_answer_of_every_version_is_read(version: int, topics: Topics) -> None:
    assert dict(read_listed_offsets(answer_of(version, topics), version)) == topics


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_cut_off_anywhere_is_refused(version: int) -> None:
    answer = answer_of(version, {"a": [(0, 0, 1), (1, 0, 2)], "b": [(0, 0, 3), (1, 0, 4)]})
    for size in range(len(answer)):
        with pytest.raises(MalformedAnswer, match=f"list_offsets version {version}"):
            list(read_listed_offsets(answer[:size], version))


def test_an_answer_that_claims_less_than_nothing_is_refused() -> None:
    answer = answer_of(1, {"a": []}).tobytes()
    with pytest.raises(MalformedAnswer, match="-1 partitions of a"):
        list(read_listed_offsets(memoryview(answer[:-4] + b"\xff\xff\xff\xff"), 1))
