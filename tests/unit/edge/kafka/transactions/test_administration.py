"""Looking at transactions, ending them from outside, and requests that make no sense."""

from typing import Any

from barnabas.core.records.control import MarkerType
from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.support import NODE_ID, ask, create, run
from tests.unit.edge.kafka.transactions.support import NEW, OLD, Client, read, stable_offset


def test_the_coordinator_of_an_id_is_found_and_its_topic_is_made() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, apis.FIND_COORDINATOR, 6, coordinator_keys=("a", "b"), key_type=1)
        assert [(each.error_code, each.node_id) for each in answer.coordinators] == [(0, NODE_ID)] * 2
        topic = broker.served.get("__transaction_state")
        assert len(topic.partitions) == 50
        assert topic.config.log.is_compacted

    run(scenario)


def test_transactions_are_listed_and_described() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 3)
        clients = [Client(broker, name) for name in ("a", "b")]
        for client in clients:
            await client.init(timeout_ms=5000)
        await clients[0].send("t", b"v", partition=2)
        await clients[0].send("t", b"v")
        listed = await ask(broker, apis.LIST_TRANSACTIONS, 2, duration_filter=-1)
        found = [(each.transactional_id, each.transaction_state) for each in listed.transaction_states]
        assert found == [("a", "Ongoing"), ("b", "Empty")]
        for filters, expected in (
            ({"state_filters": ("Ongoing",)}, ["a"]),
            ({"producer_id_filters": (clients[1].producer_id,)}, ["b"]),
            ({"transactional_id_pattern": "[bc]"}, ["b"]),
            ({"state_filters": ("Nowhere",)}, []),
        ):
            listed = await ask(broker, apis.LIST_TRANSACTIONS, 2, **{"duration_filter": -1, **filters})
            assert [each.transactional_id for each in listed.transaction_states] == expected
            assert list(listed.unknown_state_filters) == (["Nowhere"] if "Nowhere" in str(filters) else [])
        bad = await ask(broker, apis.LIST_TRANSACTIONS, 2, duration_filter=-1, transactional_id_pattern="(")
        assert bad.error_code.value == 128
        answer = await ask(broker, apis.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("a", "nobody", ""))
        described, unknown, empty = answer.transaction_states
        assert (described.transaction_state, described.producer_id) == ("Ongoing", clients[0].producer_id)
        assert [(each.topic, each.partitions) for each in described.topics] == [("t", (0, 2))]
        assert described.transaction_timeout.total_seconds() == 5
        assert described.transaction_start_time.timestamp() * 1000 == NOW_MS
        assert (unknown.error_code.value, empty.error_code.value) == (105, 42)

    run(scenario)


def test_all_partitions_are_added_or_none() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 2)
        client = Client(broker, generation=OLD)
        await client.init()
        assert await client.add("t", 0, 7, 1) == [55, 3, 55]
        assert await client.add("not there", 0) == [3]
        assert await client.add("__transaction_state", 0) == [29]
        assert await client.end() == 48  # nothing was begun
        assert await client.add("t", 0, 1) == [0, 0]

    run(scenario)


def test_other_brokers_add_for_many_or_only_ask() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 2)
        client = Client(broker, generation=NEW)
        await client.init()
        for is_asked, partitions, expected in (
            (True, (0,), [120]),
            (False, (0,), [0]),
            (True, (0, 1), [0, 120]),
        ):
            request: dict[str, Any] = {**client.who, "verify_only": is_asked}
            request["topics"] = [{"name": "t", "partitions": partitions}]
            answer = await ask(broker, apis.ADD_PARTITIONS_TO_TXN, 5, transactions=[request])
            [topic] = answer.results_by_transaction[0].topic_results
            assert [int(each.partition_error_code.value) for each in topic.results_by_partition] == expected

    run(scenario)


def test_a_transaction_that_hangs_is_ended_by_a_marker_from_outside() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker)
        await client.init()
        await client.send("t", b"v")
        marker = {
            "producer_id": client.producer_id,
            "producer_epoch": client.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            "topics": [{"name": "t", "partition_indexes": (0, 7)}],
        }
        answer = await ask(broker, apis.WRITE_TXN_MARKERS, 1, markers=[marker])
        [topic] = answer.markers[0].topics
        assert [int(each.error_code.value) for each in topic.partitions] == [0, 3]
        assert await read(broker, "t") == []
        assert await stable_offset(broker, "t") == (2, 2)

    run(scenario)


def test_a_marker_of_a_replaced_producer_or_coordinator_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        partition = broker.served.get_partition("t", 0)
        ids = {"producer_id": 5, "version": 0, "now_ms": NOW_MS}
        partition.append_marker(MarkerType.COMMIT, producer_epoch=3, coordinator_epoch=4, **ids)
        for epoch, coordinator_epoch, code in ((2, 4, 47), (3, 3, 52), (3, 4, 0)):
            marker = {
                "producer_id": 5,
                "producer_epoch": epoch,
                "transaction_result": True,
                "coordinator_epoch": coordinator_epoch,
                "topics": [{"name": "t", "partition_indexes": (0,)}],
            }
            answer = await ask(broker, apis.WRITE_TXN_MARKERS, 2, markers=[marker])
            assert answer.markers[0].topics[0].partitions[0].error_code.value == code

    run(scenario)
