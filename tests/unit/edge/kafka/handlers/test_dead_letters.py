"""Dead letters of share groups (KIP-1191): what they say, when they are written, and what if they cannot be."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.fetched import FetchPartition
from barnabas.core.records.batch import iter_batches
from barnabas.core.records.dead_letters import Cause
from barnabas.core.records.record import Header, Record, decode_records, encode_batch
from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.handlers.sharing import (
    GROUP_RESOURCE,
    QUICK,
    REJECT,
    RELEASE,
    Member,
    ack_code,
    begin,
    pass_time,
    set_group,
)
from tests.unit.edge.kafka.support import ask, config_of, create, produce, run

BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
LETTERS = "dlq.t"
ALLOWED = "errors.deadletterqueue.group.enable"
TOPIC_NAME = "errors.deadletterqueue.topic.name"
INVALID_CONFIG = 40


async def alter(broker: Broker, kind: int, name: str, **settings: str) -> Any:
    """Alter settings; two underscores stand for a dot."""
    changes = [{"name": key.replace("__", "."), "value": text, "config_operation": 0} for key, text in settings.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    answer = await ask(broker, apis.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    return answer.responses[0]


async def allow(broker: Broker, *, partitions: int = 1) -> None:
    """A topic that takes dead letters."""
    await create(broker, LETTERS, partitions, **{ALLOWED.replace(".", "_"): "true"})


async def ask_for_letters(broker: Broker, *, copies: bool = True, **more: str) -> None:
    """Have the group write dead letters."""
    await set_group(
        broker,
        errors__deadletterqueue__topic__name=LETTERS,
        errors__deadletterqueue__copy__record__enable=str(copies).lower(),
        **more,
    )


async def read(broker: Broker, topic: str = LETTERS, partition: int = 0) -> list[Record]:
    """All records of a partition."""
    served = broker.served.get_partition(topic, partition)
    if served.find_log() is None:
        return []
    found = broker.fetch.look(
        served,
        FetchPartition(partition, fetch_offset=0, max_bytes=10_000_000),
        is_committed=False,
        max_bytes=10_000_000,
        is_first=True,
    )
    await broker.fetch.read([found], max_bytes=10_000_000)
    assert found.error is None
    assert isinstance(found.records, bytes | bytearray | memoryview)
    data = bytes(found.records)
    return [record for position, header in iter_batches(data) for record in decode_records(data, position, header)]


async def wait_until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(5_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(what)


def archiving(broker: Broker) -> int:
    return sum(led.archiving for led in broker.shares.led.of_group("g"))


async def wait_written(broker: Broker) -> None:
    """Return when every record has its letter."""
    await wait_until(lambda: not archiving(broker), "letters are not written")


async def reject(member: Member, first: int, last: int) -> None:
    assert ack_code(await member.acknowledge({0: [(first, last, [REJECT])]})) == 0


def offsets_of(letters: list[Record]) -> list[int]:
    return [int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in letters]


def append(broker: Broker, *records: tuple[bytes | None, bytes | None, tuple[Header, ...]]) -> None:
    batch = encode_batch([Record(number, NOW_MS, *record) for number, record in enumerate(records)])
    broker.served.get_partition("t", 0).append(bytearray(batch), now_ms=NOW_MS)


# What they say


def test_a_rejected_record_is_copied_with_the_headers_of_kafka_and_its_own() -> None:
    async def scenario(broker: Broker) -> None:
        await allow(broker)
        member = await begin(broker, records=3)
        append(broker, (b"key", b"value", (("mine", b"1"), ("mine", b"2"), ("__dlq.errors.offset", b"77"))))
        await produce(broker, "t", NOW_MS)
        await ask_for_letters(broker)
        assert await member.acquire() == [(0, 4, 1)]
        await reject(member, 3, 3)
        await wait_written(broker)
        (letter,) = await read(broker)
        assert (letter.key, letter.value, letter.timestamp) == (b"key", b"value", NOW_MS)
        assert letter.headers == (
            ("mine", b"1"),
            ("mine", b"2"),
            ("__dlq.errors.topic", b"t"),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.offset", b"3"),
            ("__dlq.errors.group", b"g"),
            ("__dlq.errors.delivery.count", b"1"),
            ("__dlq.errors.message", Cause.REJECTED.value.encode()),
            ("barnabas-dlq-copied", b"true"),
        )

    run(scenario, QUICK)


def test_without_copies_a_letter_says_only_where_its_record_is() -> None:
    async def scenario(broker: Broker) -> None:
        await allow(broker, partitions=2)
        member = await begin(broker, partitions=4)
        await produce(broker, "t", NOW_MS, partition=3)
        await ask_for_letters(broker, copies=False)
        assert await member.acquire(3) == [(0, 0, 1)]
        assert ack_code(await member.acknowledge({3: [(0, 0, [REJECT])]}), 3) == 0
        await wait_written(broker)
        assert await read(broker) == []
        (letter,) = await read(broker, partition=3 % 2)
        assert (letter.key, letter.value) == (None, None)
        assert [name for name, _ in letter.headers] == [
            f"__dlq.errors.{end}" for end in ("topic", "partition", "offset", "group", "delivery.count", "message")
        ]

    run(scenario, QUICK)


def test_a_record_that_was_delivered_often_enough_gets_a_letter_however_it_came_back() -> None:
    async def scenario(broker: Broker) -> None:
        await allow(broker)
        member = await begin(broker, records=1, batches=2)
        await ask_for_letters(broker, share__delivery__count__limit="2")
        assert await member.acquire(max_records=1) == [(0, 0, 1)]
        await member.acknowledge({0: [(0, 0, [RELEASE])]})
        assert await member.acquire(max_records=1) == [(0, 0, 2)]
        await member.acknowledge({0: [(0, 0, [RELEASE])]})
        assert await member.acquire(max_records=1) == [(1, 1, 1)]
        await pass_time(6)
        assert await member.acquire(max_records=1) == [(1, 1, 2)]
        await pass_time(6)
        await wait_written(broker)
        letters = await read(broker)
        assert offsets_of(letters) == [0, 1]
        assert {dict(each.headers)["__dlq.errors.message"] for each in letters} == {Cause.LIMIT.value.encode()}
        assert {dict(each.headers)["__dlq.errors.delivery.count"] for each in letters} == {b"2"}
        assert broker.shares.led.letter_counts.written == 2

    run(scenario, QUICK, is_virtual=True)


def test_many_letters_go_in_batches_that_their_topic_takes() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, LETTERS, 1, **{ALLOWED.replace(".", "_"): "true", "max_message_bytes": "3000"})
        member = await begin(broker, records=600)
        await ask_for_letters(broker)
        assert await member.acquire(max_records=1000) == [(0, 599, 1)]
        await reject(member, 0, 599)
        await wait_written(broker)
        assert offsets_of(await read(broker)) == list(range(600))

    run(scenario, QUICK)


def test_a_record_that_is_too_large_for_a_letter_is_not_copied() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, LETTERS, 1, **{ALLOWED.replace(".", "_"): "true", "max_message_bytes": "3000"})
        member = await begin(broker, records=1)
        append(broker, (b"key", b"x" * 5000, ()))
        await produce(broker, "t", NOW_MS)
        await ask_for_letters(broker)
        assert await member.acquire() == [(0, 2, 1)]
        await reject(member, 0, 2)
        await wait_written(broker)
        found = await read(broker)
        assert offsets_of(found) == [0, 1, 2]
        assert [each.value for each in found] == [b"v", None, b"v"]
        assert "barnabas-dlq-copied" not in dict(found[1].headers)

    run(scenario, QUICK)


# What happens when they cannot be written


def test_nothing_is_archived_while_the_topic_is_missing_and_all_is_written_once_it_is_there() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=10)
        await ask_for_letters(broker)
        assert await member.acquire() == [(0, 9, 1)]
        await reject(member, 0, 9)
        counts = broker.shares.led.letter_counts
        await wait_until(lambda: counts.failures > 3, "nothing was tried")
        (led,) = broker.shares.led.of_group("g")
        assert (archiving(broker), counts.written, led.share.start_offset) == (10, 0, 0)
        assert await member.acquire() == []  # and they are not delivered again
        await allow(broker)
        await wait_written(broker)
        assert offsets_of(await read(broker)) == list(range(10))
        assert led.share.start_offset == 10

    run(scenario, QUICK, is_virtual=True)


def test_letters_that_wait_fill_the_locks_so_that_they_are_bounded() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=60, batches=4)
        await ask_for_letters(broker, share__partition__max__record__locks="100")
        for first in (0, 60):
            assert await member.acquire(max_records=60) == [(first, first + 59, 1)]
            await reject(member, first, first + 59)
        assert await member.acquire() == []
        await allow(broker)
        assert await member.acquire(max_records=60, max_wait=30_000) == [(120, 179, 1)]

    run(scenario, QUICK, is_virtual=True)


def test_a_group_without_members_stays_until_its_letters_are_written_and_is_let_go_then() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=2)
        await ask_for_letters(broker)
        await member.acquire()
        await reject(member, 0, 1)
        await member.fetch(epoch=-1)
        await pass_time(30)
        assert archiving(broker) == 2
        await allow(broker)
        await wait_until(lambda: not broker.shares.led.of_group("g"), "the group is still in memory")
        assert offsets_of(await read(broker)) == [0, 1]

    run(scenario, QUICK, is_virtual=True)


def test_the_next_leader_goes_on_with_letters_that_are_not_written() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=4)
        await ask_for_letters(broker, share__delivery__count__limit="2")
        await member.acquire()
        await reject(member, 1, 2)
        (led,) = broker.shares.led.of_group("g")
        broker.shares.led._drop(led)  # what a change of leaders does: all that is left is what was written
        member.epoch = 0
        assert await member.acquire() == [(0, 0, 1), (3, 3, 1)]
        assert archiving(broker) == 2
        await allow(broker)
        await wait_written(broker)
        assert offsets_of(await read(broker)) == [1, 2]

    run(scenario, QUICK, is_virtual=True)


def test_letters_that_nobody_wants_any_more_are_not_written_and_their_records_are_done() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=2)
        await ask_for_letters(broker)
        await member.acquire()
        await reject(member, 0, 1)
        await pass_time(1)
        await set_group(broker, errors__deadletterqueue__topic__name="")
        await wait_written(broker)
        (led,) = broker.shares.led.of_group("g")
        assert (led.share.start_offset, broker.shares.led.letter_counts.written) == (2, 0)

    run(scenario, QUICK, is_virtual=True)


def test_that_records_were_deleted_before_their_letters_were_written_is_counted() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=2, batches=2)
        await ask_for_letters(broker)
        await member.acquire(max_records=4)
        await reject(member, 0, 3)
        asked = {"partition_index": 0, "offset": 2}
        await ask(broker, apis.DELETE_RECORDS, 2, topics=[{"name": "t", "partitions": [asked]}], timeout=1000)
        await wait_until(lambda: broker.shares.led.letter_counts.deleted == 2, "nobody noticed")
        assert archiving(broker) == 2

    run(scenario, QUICK, is_virtual=True)


# The topic


def test_a_missing_topic_is_created_if_the_broker_is_told_to() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=1)
        await ask_for_letters(broker)
        altered = await alter(broker, BROKER_RESOURCE, "", errors__deadletterqueue__auto__create__topics__enable="true")
        assert altered.error_code == 0
        await member.acquire()
        await reject(member, 0, 0)
        await wait_written(broker)
        assert offsets_of(await read(broker)) == [0]
        assert broker.served.get(LETTERS).config.takes_dead_letters

    run(scenario, QUICK)


def test_a_topic_that_does_not_allow_it_gets_no_letters() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, LETTERS)
        member = await begin(broker, records=1)
        await ask_for_letters(broker)
        await member.acquire()
        await reject(member, 0, 0)
        await wait_until(lambda: broker.shares.led.letter_counts.failures > 2, "nothing was tried")
        assert (archiving(broker), await read(broker)) == (1, [])
        await alter(broker, TOPIC_RESOURCE, LETTERS, errors__deadletterqueue__group__enable="true")
        await wait_written(broker)
        assert offsets_of(await read(broker)) == [0]

    run(scenario, QUICK, is_virtual=True)


@pytest.mark.parametrize(
    ("name", "says"),
    [("orders", "begin with 'dlq.'"), ("__consumer_offsets", "internal"), ("dlq./", "characters"), ("..", "allowed")],
)
def test_a_name_that_no_dead_letter_topic_may_have_is_refused(name: str, says: str) -> None:
    async def scenario(broker: Broker) -> None:
        refused = await alter(broker, GROUP_RESOURCE, "g", **{TOPIC_NAME.replace(".", "__"): name})
        assert refused.error_code == INVALID_CONFIG
        assert says in refused.error_message

    run(scenario, QUICK)


def test_another_prefix_allows_other_names() -> None:
    async def scenario(broker: Broker) -> None:
        accepted = await alter(broker, GROUP_RESOURCE, "g", **{TOPIC_NAME.replace(".", "__"): "dead-orders"})
        assert accepted.error_code == 0

    run(scenario, config_of(errors_deadletterqueue_topic_name_prefix="dead-"))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("errors__deadletterqueue__copy__record__enable", "perhaps"),
        ("share__retry__backoff__ms", "-1"),
        ("share__retry__backoff__max__ms", "0"),
        ("share__partition__max__waiting__records", "99"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: str, value: str) -> None:
    async def scenario(broker: Broker) -> None:
        refused = await alter(broker, GROUP_RESOURCE, "g", **{setting: value})
        assert refused.error_code == INVALID_CONFIG

    run(scenario, QUICK)
