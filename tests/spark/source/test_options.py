"""Options, sharing and splitting, without Spark running."""

import json
import pickle
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.model import TopicPartition
from barnabas.spark.source.data_loss import Loss
from barnabas.spark.source.data_source import BarnabasDataSource
from barnabas.spark.source.limits import share_bytes, share_offsets
from barnabas.spark.source.offsets import Position, from_json, to_json
from barnabas.spark.source.options import parse_options
from barnabas.spark.source.planning import OffsetRange, plan, together
from barnabas.spark.source.refusals import InvalidOption
from barnabas.spark.source.rows import row_schema

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
KEYS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
COUNTS = st.fixed_dictionaries({key: st.integers(0, 10_000) for key in KEYS})


def parse(mode: Any = "stream", **options: str) -> Any:
    return parse_options({**BASE, **{name.replace("__", "."): value for name, value in options.items()}}, mode)


def test_options_have_the_defaults_of_the_page() -> None:
    options = parse()

    assert options.address.settings.bootstrap == "localhost:9092"
    assert options.is_committed
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.start.everywhere, options.end.everywhere) == (-1, -1)
    assert parse("batch").start.everywhere == -2
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_known_in_any_case_and_sizes_and_times_have_units() -> None:
    options = parse(MAXOFFSETSPERTRIGGER="7", maxBytesPerTrigger="64m", minOffsetsPerTrigger="3", maxTriggerDelay="2m")

    assert options.limits.max_offsets == 7
    assert options.limits.max_bytes == 64 * 2**20
    assert options.limits.max_trigger_delay_ms == 120_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap": "x:1"}, "options 'kafka.bootstrap.servers' and 'bootstrap' contradict each other"),
        (
            {"kafka__bootstrap__servers": "not an address"},
            "'kafka.bootstrap.servers' is 'not an address'; it is a list",
        ),
        ({"subscribe": " , "}, "'subscribe' names no topic"),
        ({"subscribe": "t", "subscribePattern": "t"}, "'subscribe' and 'subscribePattern' contradict"),
        ({"startingOffsets": "first"}, "'startingOffsets' is 'first'; it may be 'earliest', 'latest' or"),
        ({"startingOffsets": '{"t": 5}'}, "it is written as"),
        ({"startingOffsets": '{"t": {}}'}, """it is written as {"topic": {"0": 23}}"""),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "with numbers from -2 on"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "'startingOffsets' and 'startingTimestamp'"),
        ({"endingOffsets": "latest"}, "'endingOffsets' is for a batch read, and this is a stream"),
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'; it is a whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "0"}, "it is a whole number from 1 on"),
        ({"maxBytesPerTrigger": "10 apples"}, "it is a size such as"),
        ({"maxTriggerDelay": "1m"}, "'maxTriggerDelay' says how long 'minOffsetsPerTrigger' may wait"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than 'maxOffsetsPerTrigger', 4"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' is 'maybe'; it may be true or false"),
        ({"isolation__level": "serializable"}, "it may be read_committed or read_uncommitted"),
        ({"kafka__auto__offset__reset": "latest"}, "'kafka.auto.offset.reset' cannot be set"),
        ({"group": " "}, "'group' is empty"),
        ({"topic": "t"}, "unknown option 'topic'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption) as refusal:
        parse(**options)

    assert said in str(refusal.value)


def test_offsets_of_partitions_that_are_not_read_are_refused() -> None:
    assigned = {"kafka.bootstrap.servers": "x:1", "assign": '{"t": [0]}'}

    with pytest.raises(InvalidOption, match="'startingOffsets' names t-1, which option 'assign' does not"):
        parse_options({**assigned, "startingOffsets": '{"t": {"0": 1, "1": 2}}'}, "stream")


def test_security_settings_are_put_into_librdkafkas_words() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b";'
    options = parse(
        kafka__security__protocol="SASL_SSL", kafka__sasl__mechanism="PLAIN", kafka__sasl__jaas__config=jaas
    )

    assert options.address.config == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b',
    }


def test_a_setting_without_effect_is_said_so(caplog: pytest.LogCaptureFixture) -> None:
    options = parse(kafka__max__poll__records="5", kafka__group__id="g")

    assert options.address.config == {}
    assert [record.getMessage().split(" has no effect")[0] for record in caplog.records] == [
        "option 'kafka.max.poll.records'",
        "option 'kafka.group.id'",
    ]


def test_offsets_are_written_as_spark_writes_them_and_in_one_order() -> None:
    offsets = {TopicPartition("b", 0): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}

    assert json.dumps(to_json(offsets)) == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'
    assert from_json(to_json(offsets)) == offsets


def test_topic_ids_are_written_where_spark_reads_no_offsets() -> None:
    position = Position({TopicPartition("b", 0): 1, TopicPartition("a", 0): 2}, {"a": "x-1_", "b": "y"})

    written = position.to_json()

    assert json.dumps(written) == '{"a": {"0": 2}, "b": {"0": 1}, "a@x-1_": {}, "b@y": {}}'
    assert Position.from_json(written) == position
    assert from_json(written) == position.offsets


WRONG_FOR_A_STREAM = {
    "endingOffsets": "latest",
    "endingTimestamp": "1",
    "endingOffsetsByTimestamp": '{"t": {"0": 1}}',
    "startingOffsets": "first",
    "maxOffsetsPerTrigger": "0",
    "group": " ",
    "kafka.auto.offset.reset": "latest",
    "failOnDataLoss": "maybe",
}


@pytest.mark.parametrize("option", WRONG_FOR_A_STREAM)
def test_what_is_wrong_for_a_stream_is_said_when_spark_asks_and_not_when_it_makes_a_reader(option: str) -> None:
    source = BarnabasDataSource({**BASE, option: WRONG_FOR_A_STREAM[option]})

    reader: Any = source.streamReader(row_schema(include_headers=False))

    calls = [reader.initialOffset, reader.getDefaultReadLimit, reader.prepareForTriggerAvailableNow]
    for call in (*calls, lambda: reader.latestOffset({}, None), lambda: reader.partitions({}, {})):
        with pytest.raises(InvalidOption, match=f"option '{option}'"):
            call()


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "maxRowsPerTrigger", "minOffsetsPerTrigger", "group"])
def test_what_is_for_a_stream_is_refused_in_a_batch(option: str) -> None:
    with pytest.raises(InvalidOption, match=f"option '{option}' is for a stream, and this is a batch read"):
        parse("batch", **{option: "5"})


@given(COUNTS, st.integers(1, 20_000))
def test_shares_add_up_to_the_limit_and_no_partition_starves(left: dict[TopicPartition, int], limit: int) -> None:
    shares = share_offsets(left, limit)

    assert sum(shares.values()) == min(sum(left.values()), limit)
    assert all(0 < count <= left[key] for key, count in shares.items())
    if limit >= len(KEYS):
        assert set(shares) == {key for key, count in left.items() if count}


@given(COUNTS, st.integers(1, 10**9), st.lists(st.floats(1, 10**6), min_size=3, max_size=3))
def test_a_share_of_bytes_is_within_the_limit_or_one_offset(
    left: dict[TopicPartition, int], limit: int, sizes: list[float]
) -> None:
    each = dict(zip(KEYS, sizes, strict=True))

    shares = share_bytes(left, each, limit)

    size = sum(count * each[key] for key, count in shares.items())
    assert all(0 < count <= left[key] for key, count in shares.items())
    assert bool(shares) == any(left.values())
    assert size <= limit * 1.001 + sum(sizes) or sum(shares.values()) == 1


@given(COUNTS, st.none() | st.integers(1, 50), st.none() | st.integers(1000, 5000))
def test_tasks_cover_every_range_once(
    left: dict[TopicPartition, int], min_partitions: int | None, max_records: int | None
) -> None:
    ranges = [OffsetRange(key, 100, 100 + count) for key, count in left.items()]

    tasks = plan(ranges, min_partitions=min_partitions, max_records=max_records)

    covered = [(task.key, offset) for task in tasks for offset in range(task.start_offset, task.end_offset)]
    assert covered == [(key, 100 + at) for key in KEYS for at in range(left[key])]
    assert all(task.count > 0 for task in tasks)
    assert max_records is None or all(task.count <= max_records for task in tasks)


@given(st.lists(st.sampled_from([1, 10, 400, 999, 1000, 1001, 5000]), max_size=12))
def test_small_ranges_are_read_together_in_their_order_and_large_ones_alone(counts: list[int]) -> None:
    ranges = [OffsetRange(TopicPartition("t", at), 0, count) for at, count in enumerate(counts)]

    tasks = together(ranges)

    assert [each for task in tasks for each in task] == ranges
    assert all(len(task) == 1 or sum(each.count for each in task) <= 1000 for task in tasks)
    assert all(sum(each.count for each in (*one, other[0])) > 1000 for one, other in pairwise(tasks))


def test_a_loss_says_which_offsets_are_gone() -> None:
    key = TopicPartition("t", 0)

    assert str(Loss(key, 2, 6, 6, 10)) == "t-0: offsets 2 to 5 are gone, it begins at 6 now"
    assert str(Loss(key, 5, 6, 6, 10)) == "t-0: offset 5 is gone, it begins at 6 now"
    assert "from 3 on are gone, the partition does not exist any more" in str(Loss(key, 3, None, None, None))
