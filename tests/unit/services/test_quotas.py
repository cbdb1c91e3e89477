"""What clients use of their quotas: who shares what, who is held and for how long, and how much is remembered."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.core.errors import ThrottlingQuotaExceeded
from barnabas.core.metadata.image import Entity, Image
from barnabas.core.metadata.records import ClientQuotaRecord
from barnabas.runtime.metrics import Metrics
from barnabas.services.access import Access
from barnabas.services.quotas import QuotaConfig, Quotas
from barnabas.services.session import Principal, Session
from barnabas.services.settings.catalogue.quota_settings import QuotaSettings
from barnabas.testing.loop import SimulatedLoop

ANY_USER: Entity = (("user", None),)
ANY_CLIENT: Entity = (("client-id", None),)


@dataclass
class Source:
    """Has an image."""

    image: Image = field(default_factory=Image)


class World:
    """Quotas, and the processor time that somebody spends."""

    def __init__(self, *, access: Access | None = None, **settings: int) -> None:
        self.source = Source()
        self.spent_s = 0.0
        self.quotas = Quotas(
            self.source, QuotaConfig.of(QuotaSettings(**settings)), access=access, seconds=lambda: self.spent_s
        )

    def set(self, entity: Entity, name: str, value: float | None) -> None:
        record = ClientQuotaRecord(entity, name, value)
        self.source.image.apply(record)
        self.quotas.apply([record])

    def spend(self, seconds: float) -> None:
        self.spent_s += seconds


class Client(Session):
    """A session that notes for how long it was muted."""

    def __init__(self, client_id: str = "app", *, user: str = "alice", is_for_controllers: bool = False) -> None:
        super().__init__(
            listener="PLAINTEXT", peer=("10.0.0.7", 1), local=("10.0.0.1", 9092), is_for_controllers=is_for_controllers
        )
        self.principal = Principal("User", user)
        self.client_id = client_id
        self.muted: list[float] = []
        self.mute = self.muted.append


def in_virtual_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(scenario())


def test_without_quotas_nothing_is_on() -> None:
    world = World()
    assert not world.quotas.is_on
    assert not world.quotas.is_on_for_ips
    world.set((("ip", None),), "connection_creation_rate", 5.0)
    assert not world.quotas.is_on  # requests cost nothing more
    assert world.quotas.is_on_for_ips


def test_a_client_over_its_quota_is_told_and_muted() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        world.set(ANY_USER, "producer_byte_rate", 100.0)
        world.quotas.produce(client, 1_000)
        assert (client.throttle_ms, client.muted) == (0, [])
        world.quotas.produce(client, 250)
        assert (client.throttle_ms, client.muted) == (2500, [2.5])
        assert world.quotas.throttled["producer"] == 1
        assert world.quotas.throttled_ms["producer"] == 2500

    in_virtual_time(scenario)


def test_connections_of_one_user_share_its_quota_and_client_ids_may_have_their_own() -> None:
    async def scenario() -> None:
        world = World()
        world.set(ANY_USER, "producer_byte_rate", 100.0)
        first, second, other = Client("one"), Client("two"), Client("one", user="bob")
        world.quotas.produce(first, 1_000)
        world.quotas.produce(second, 100)
        world.quotas.produce(other, 100)
        assert [each.throttle_ms for each in (first, second, other)] == [0, 1000, 0]
        world.set((("client-id", None), ("user", "alice")), "producer_byte_rate", 100.0)
        world.quotas.produce(first, 100)
        assert first.throttle_ms == 0

    in_virtual_time(scenario)


def test_what_was_used_is_kept_when_a_quota_changes_but_not_held_against_the_new_one() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        world.set(ANY_USER, "producer_byte_rate", 100.0)
        world.quotas.produce(client, 1_000)
        world.set(ANY_USER, "producer_byte_rate", 10.0)
        world.quotas.produce(client, 10)
        assert client.muted == [1.0]

    in_virtual_time(scenario)


def test_processor_time_is_counted_in_every_step_and_its_delay_is_bounded() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        world.set(ANY_USER, "request_percentage", 10.0)

        async def work() -> str:
            world.spend(0.5)
            await asyncio.sleep(0)
            world.spend(0.7)
            with pytest.raises(ValueError, match="wrong"):
                await fail()
            return "done"

        async def fail() -> None:
            await asyncio.sleep(0)
            world.spend(0.3)
            raise ValueError("wrong")

        assert await world.quotas.measure(client, work) == "done"
        allowance = world.quotas.of(client).time
        assert allowance is not None
        assert allowance.delay_s(now_s=0) == pytest.approx(1.5 / 0.1 - 10)
        world.quotas.begin(client)
        assert client.muted == [1.0]  # and not five seconds
        assert world.quotas.throttled["request"] == 1

    in_virtual_time(scenario)


def test_work_that_is_cancelled_ends_and_is_paid_for() -> None:
    async def scenario() -> None:
        world, client, ended = World(), Client(), []
        world.set(ANY_USER, "request_percentage", 10.0)

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                world.spend(0.25)
                ended.append(True)

        doing = asyncio.ensure_future(world.quotas.measure(client, work))
        await asyncio.sleep(1)
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
        assert ended == [True]
        allowance = world.quotas.of(client).time
        assert allowance is not None
        assert not allowance.is_idle(now_s=1)

    in_virtual_time(scenario)


def test_changes_are_refused_only_when_the_quota_is_used_up() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        world.set(ANY_CLIENT, "controller_mutation_rate", 1.0)
        world.quotas.mutate(client, 30, is_strict=True)
        assert client.muted == []
        with pytest.raises(ThrottlingQuotaExceeded, match="19000 ms"):
            world.quotas.mutate(client, 1, is_strict=True)
        assert client.muted == [19.0]
        world.quotas.mutate(client, 1, is_strict=False)
        assert client.muted == [19.0, 20.0]
        await asyncio.sleep(20)
        world.quotas.mutate(client, 1, is_strict=True)

    in_virtual_time(scenario)


def test_nodes_have_no_quotas() -> None:
    class MayNotActForTheCluster:
        def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
            return session.principal.name == "node" or operation is not Operation.CLUSTER_ACTION

        def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
            return True

    async def scenario() -> None:
        access = Access()
        access.use(MayNotActForTheCluster())
        world = World(access=access)
        world.set(ANY_CLIENT, "producer_byte_rate", 1.0)
        known = Client()
        known.is_node = True
        controller = Client(is_for_controllers=True)
        named = Client("barnabas-node-2", user="node")
        impostor = Client("barnabas-node-2", user="mallory")
        for each in (known, controller, named, impostor):
            world.quotas.produce(each, 1_000_000)
        assert [bool(each.muted) for each in (known, controller, named, impostor)] == [False, False, False, True]

    in_virtual_time(scenario)


def test_a_user_who_has_logged_in_is_no_node_by_its_client_id() -> None:
    async def scenario() -> None:
        world = World(access=Access())  # without an authorizer
        world.set(ANY_CLIENT, "producer_byte_rate", 100.0)
        impostor = Client("barnabas-node-2", user="mallory")
        world.quotas.produce(impostor, 1_000_000)
        assert impostor.muted

    in_virtual_time(scenario)


def test_a_request_that_was_forwarded_counts_for_its_client() -> None:
    async def scenario() -> None:
        world, client = World(), Client(is_for_controllers=True)
        client.is_forwarded = True
        world.set(ANY_CLIENT, "controller_mutation_rate", 1.0)
        world.quotas.mutate(client, 50, is_strict=False)
        assert client.throttle_ms == 39_000

    in_virtual_time(scenario)


def test_idle_clients_are_forgotten_and_too_many_share_what_one_may_use() -> None:
    async def scenario() -> None:
        world = World(quota_max_tracked_clients=10)
        world.set(ANY_CLIENT, "producer_byte_rate", 100.0)
        many = [Client(f"client-{number}") for number in range(1000)]
        for each in many:
            world.quotas.produce(each, 900)
        assert sum(bool(each.muted) for each in many) == 1000 - 10 - 1  # the first of those that share fits
        assert len(world.quotas._tracked) == 10
        assert len(world.quotas._clients) <= 10
        assert len(world.quotas._shared) == 1
        await asyncio.sleep(100_000)
        again = [Client(f"again-{number}") for number in range(10)]
        for each in again:
            world.quotas.produce(each, 900)
        assert not any(each.muted for each in again)
        assert len(world.quotas._tracked) == 10

    in_virtual_time(scenario)


def test_when_the_last_quota_is_removed_nothing_is_remembered() -> None:
    async def scenario() -> None:
        world = World()
        world.set(ANY_CLIENT, "producer_byte_rate", 100.0)
        world.quotas.produce(Client(), 5_000)
        world.set(ANY_CLIENT, "producer_byte_rate", None)
        assert not world.quotas.is_on
        assert not world.quotas._tracked

    in_virtual_time(scenario)


def test_who_is_throttled_is_counted() -> None:
    async def scenario() -> None:
        world, metrics = World(), Metrics()
        world.quotas.report(metrics)
        world.set(ANY_CLIENT, "consumer_byte_rate", 100.0)
        client = Client()
        assert world.quotas.may_consume(client, 600)
        assert not world.quotas.may_consume(client, 600)
        world.set((("ip", None),), "connection_creation_rate", 1.0)
        assert [world.quotas.connect("10.0.0.7") for _ in range(12)].count(1.0) == 2
        found = {(each.metric.name, each.label): each.value for each in metrics.read()}
        assert found["quota_throttled_total", "consumer"] == 1
        assert found["quota_throttle_ms_total", "consumer"] == 2000
        assert found["quota_throttled_total", "connection"] == 2
        assert found["quota_tracked_clients", ""] == 2

    in_virtual_time(scenario)
