"""Elections with eligible leader replicas (KIP-966), when brokers stop, start and lose their disks."""

from typing import TypeVar
from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from barnabas.core.metadata import Image, MetadataDecision, NewTopic, elect_preferred, elect_unclean, set_configs
from barnabas.core.metadata.brokers import Heartbeat, Registration, fence, heartbeat, register, unregister
from barnabas.core.metadata.difference import difference
from barnabas.core.metadata.electing import ELR_VERSION, ElectionRules, has_elr, rules_of, stand_in
from barnabas.core.metadata.elections import balance, elect_leaders, elect_where_allowed
from barnabas.core.metadata.levels import METADATA_VERSION, SEVERAL_NODES, SEVERAL_REPLICAS, check_level, needed_level
from barnabas.core.metadata.records import (
    ALL_NODES,
    BROKER_RESOURCE,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    TOPIC_RESOURCE,
    Endpoint,
    FeatureRecord,
    PartitionRecord,
    decode_record,
    encode_record,
)
from tests.unit.core.metadata.builders import apply_all, image_of

T = TypeVar("T")


def take(image: Image, decision: MetadataDecision[T]) -> T:
    apply_all(image, decision.records)
    return decision.reply


def image_with(nodes: int = 3, *, minimum: int = 2, replicas: tuple[int, ...] = (0, 1, 2), **configs: str) -> Image:
    settings = {"min.insync.replicas": str(minimum), **{key.replace("_", "."): value for key, value in configs.items()}}
    return image_of(nodes, [NewTopic("a", assignments={0: replicas}, configs=settings)])


def state_of(image: Image) -> PartitionRecord:
    return image.get_topic("a").get_partition(0)


def stop(image: Image, *nodes: int) -> None:
    for node in nodes:
        take(image, fence(image, node))


def let_in(image: Image, *nodes: int) -> None:
    for node in nodes:
        beat = Heartbeat(node_id=node, epoch=image.nodes[node].epoch, metadata_offset=1 << 40)
        take(image, heartbeat(image, beat, is_known_to_leave=False))


def restart(
    image: Image, node: int, *, epoch: int, directory: int = 1, is_clean: bool = False, is_local: bool = False
) -> None:
    registration = Registration(
        node_id=node,
        incarnation=UUID(int=epoch),
        directory_id=UUID(int=directory),
        endpoints=(Endpoint("PLAINTEXT", "h", 1),),
        previous_epoch=image.nodes[node].epoch if is_clean else None,
    )
    take(image, register(image, registration, epoch=epoch, has_session=False, is_local=is_local))


def told(image: Image) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    state = state_of(image)
    return state.leader, state.isr, state.elr, state.last_known_elr


# Stopping


def test_who_leaves_while_enough_stay_in_sync_is_not_eligible() -> None:
    image = image_with()

    stop(image, 2)

    assert told(image) == (0, (0, 1), (), ())


def test_below_the_minimum_who_leaves_is_eligible() -> None:
    image = image_with()

    stop(image, 2, 1)

    assert told(image) == (0, (0,), (1,), ())


def test_with_nobody_in_sync_the_first_eligible_replica_leads_when_it_is_back() -> None:
    image = image_with()
    stop(image, 2, 1, 0)
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))
    epoch = state_of(image).leader_epoch

    let_in(image, 2)
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))
    let_in(image, 1)

    assert told(image) == (1, (1,), (0,), ())
    assert state_of(image).leader_epoch == epoch + 1
    assert state_of(image).recovery_state == RECOVERED


def test_a_minimum_above_the_replication_factor_is_the_replication_factor() -> None:
    image = image_with(minimum=5)

    stop(image, 2)

    assert told(image) == (0, (0, 1), (2,), ())


def test_an_elected_eligible_replica_that_suffices_leaves_nobody_eligible() -> None:
    image = image_with(minimum=1)
    stop(image, 2, 1, 0)
    assert told(image) == (NO_LEADER, (), (0,), (0,))

    let_in(image, 0)

    assert told(image) == (0, (0,), (), ())


def test_a_single_replica_stays_in_sync_for_good() -> None:
    image = image_with(replicas=(1,))

    stop(image, 1)
    assert told(image) == (NO_LEADER, (1,), (), ())
    restart(image, 1, epoch=50, directory=9)
    assert told(image) == (NO_LEADER, (1,), (), ())
    let_in(image, 1)

    assert told(image) == (1, (1,), (), ())


def test_who_shuts_down_hands_over_and_stays_eligible_if_it_was_needed() -> None:
    image = image_with()
    stop(image, 2)

    beat = Heartbeat(node_id=0, epoch=0, metadata_offset=1 << 40, wants_shutdown=True)
    take(image, heartbeat(image, beat, is_known_to_leave=False))

    assert told(image) == (1, (1,), (0,), ())


def test_an_unregistered_broker_stays_eligible_but_cannot_lead() -> None:
    image = image_with()
    stop(image, 2, 1)

    take(image, unregister(image, 0, has_session=False))

    assert told(image) == (NO_LEADER, (), (0, 1), (0,))


def test_an_unregistered_broker_that_comes_back_has_no_claim_as_nobody_knows_with_which_disk() -> None:
    image = image_with()
    stop(image, 2, 1)
    take(image, unregister(image, 0, has_session=False))
    back = Registration(
        node_id=0,
        incarnation=UUID(int=60),
        directory_id=UUID(int=60),
        endpoints=(Endpoint("PLAINTEXT", "h", 1),),
    )

    take(image, register(image, back, epoch=60, has_session=False))
    let_in(image, 0)
    assert told(image) == (NO_LEADER, (), (1,), (0,))
    let_in(image, 1)
    assert state_of(image).leader == 1


def test_the_single_replica_of_an_unregistered_broker_leads_again_when_it_comes_back() -> None:
    image = image_with(replicas=(0,), minimum=1)
    take(image, unregister(image, 0, has_session=False))
    back = Registration(
        node_id=0, incarnation=UUID(int=60), directory_id=None, endpoints=(Endpoint("PLAINTEXT", "h", 1),)
    )

    take(image, register(image, back, epoch=60, has_session=False))
    let_in(image, 0)

    assert told(image) == (0, (0,), (), ())


# Unclean restarts


def test_an_unclean_restart_keeps_its_claim_where_records_are_flushed_first_and_gets_a_new_epoch() -> None:
    image = image_with()
    stop(image, 2, 1)
    epoch = state_of(image).leader_epoch

    restart(image, 0, epoch=50)
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))
    let_in(image, 0)

    assert told(image) == (0, (0,), (1,), ())
    assert state_of(image).leader_epoch == epoch + 2


def test_a_power_cut_of_all_nodes_comes_back_by_itself_in_any_order() -> None:
    for first, second, third in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        image = image_with()
        for number, node in enumerate((first, second, third)):
            restart(image, node, epoch=50 + number)
        assert state_of(image).leader == NO_LEADER

        let_in(image, third, second, first)

        assert state_of(image).leader in (second, third)
        assert state_of(image).recovery_state == RECOVERED


def test_left_to_the_operating_system_an_unclean_restart_loses_its_claim() -> None:
    image = image_with(flush_policy="os")
    stop(image, 2, 1, 0)
    assert state_of(image).elr == (0, 1)

    restart(image, 0, epoch=50)
    assert told(image) == (NO_LEADER, (), (1,), (0,))
    restart(image, 1, epoch=51, is_clean=True)
    assert state_of(image).elr == (1,)
    restart(image, 1, epoch=52)
    assert told(image) == (NO_LEADER, (), (), (0, 1))


def test_k19522_with_nobody_eligible_the_last_leader_leads_once_it_is_let_in() -> None:
    image = image_with(flush_policy="os")
    stop(image, 2, 1, 0)
    restart(image, 0, epoch=50)
    restart(image, 1, epoch=51)

    let_in(image, 1, 2)
    assert told(image) == (NO_LEADER, (), (), (0, 1))
    let_in(image, 0)

    assert told(image) == (0, (0,), (), ())
    assert state_of(image).recovery_state == RECOVERING


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("is_leader_back_first", [False, True])
def test_where_the_last_leader_has_lost_its_log_who_was_eligible_last_leads(
    is_local: bool, is_leader_back_first: bool
) -> None:
    image = identified(image_with(flush_policy="os", replicas=(0, 1)))
    stop(image, 1, 0)
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))

    if is_leader_back_first:
        restart(image, 0, epoch=50, directory=2)
        restart(image, 1, epoch=51, is_local=is_local)
        let_in(image, 0, 1)
    else:
        restart(image, 1, epoch=50)
        let_in(image, 1)
        assert told(image) == (NO_LEADER, (), (0,), (0, 1))
        restart(image, 0, epoch=51, directory=2, is_local=is_local)

    assert told(image) == (1, (1,), (), ())
    assert state_of(image).recovery_state == RECOVERING


def test_another_data_directory_has_nothing() -> None:
    image = image_with()
    for node in range(3):
        image.apply(msgspec.structs.replace(image.nodes[node], directory_id=UUID(int=1)))
    stop(image, 2, 1)

    restart(image, 1, epoch=50, directory=2, is_clean=True)

    assert told(image) == (0, (0,), (), ())


def identified(image: Image) -> Image:
    """With the data directory 1 on every node."""
    for node in image.nodes:
        image.apply(msgspec.structs.replace(image.nodes[node], directory_id=UUID(int=1)))
    return image


@pytest.mark.parametrize("is_local", [False, True])
def test_the_only_replica_does_not_lead_with_another_data_directory_unless_an_operator_has_it_lead(
    is_local: bool,
) -> None:
    image = identified(image_with(minimum=1, replicas=(0,)))

    restart(image, 0, epoch=50, directory=2, is_clean=True, is_local=is_local)
    let_in(image, 0)
    restart(image, 0, epoch=51, directory=2, is_local=is_local)
    let_in(image, 0)
    assert told(image) == (NO_LEADER, (), (), ())

    take(image, elect_unclean(image, "a", 0))
    assert told(image) == (0, (0,), (), ())


@pytest.mark.parametrize("is_local", [False, True])
def test_the_last_leader_does_not_lead_with_another_data_directory(is_local: bool) -> None:
    image = identified(image_with(minimum=1, replicas=(0, 1)))
    stop(image, 1, 0)

    restart(image, 0, epoch=50, directory=2, is_local=is_local)
    let_in(image, 0, 1)

    assert told(image) == (NO_LEADER, (), (), ())


def test_a_leader_that_was_remembered_is_not_once_it_has_another_data_directory() -> None:
    image = identified(image_with(minimum=1, replicas=(0, 1), flush_policy="os"))
    stop(image, 1, 0)
    restart(image, 0, epoch=50)
    assert told(image) == (NO_LEADER, (), (), (0,))

    restart(image, 0, epoch=51, directory=2)
    let_in(image, 0)

    assert told(image) == (NO_LEADER, (), (), ())


@pytest.mark.parametrize(("directory", "leader"), [(1, 0), (2, NO_LEADER)])
def test_a_node_that_was_removed_leads_again_only_with_the_data_directory_that_it_had(
    directory: int, leader: int
) -> None:
    image = identified(image_with(minimum=1, replicas=(0,)))
    stop(image, 0)
    take(image, unregister(image, 0, has_session=False))
    image = copied(image)

    registration = Registration(
        node_id=0,
        incarnation=UUID(int=9),
        directory_id=UUID(int=directory),
        endpoints=(Endpoint("PLAINTEXT", "h", 1),),
    )
    take(image, register(image, registration, epoch=50, has_session=False))
    let_in(image, 0)

    assert state_of(image).leader == leader
    assert image.removed == {}


def copied(image: Image) -> Image:
    """As a snapshot brings it to another node, into an image of an earlier state."""
    snapshot = Image()
    apply_all(snapshot, [decode_record(encode_record(record)) for record in image.to_records()])
    assert snapshot == image
    earlier = identified(image_with(minimum=1, replicas=(0,)))
    apply_all(earlier, difference(earlier, snapshot))
    assert earlier == image
    return snapshot


@pytest.mark.parametrize(("policy", "directory", "leader", "isr"), [("fsync", 1, 0, (0, 1, 2)), ("os", 1, 1, (1, 2))])
def test_beside_the_controller_a_restart_goes_by_the_same_rules(
    policy: str, directory: int, leader: int, isr: tuple[int, ...]
) -> None:
    image = image_with(flush_policy=policy)

    restart(image, 0, epoch=50, directory=directory, is_local=True)

    state = state_of(image)
    assert (state.leader, state.isr, state.leader_epoch) == (leader, isr, 1)


def test_beside_the_controller_the_last_one_leads_on_and_recovers() -> None:
    image = image_with(flush_policy="os")
    stop(image, 1, 2)
    take(image, set_configs(image, TOPIC_RESOURCE, "a", {"min.insync.replicas": "1"}))

    before = state_of(image)

    restart(image, 0, epoch=50, is_local=True)

    state = state_of(image)
    assert (state.leader, state.isr, state.recovery_state) == (0, (0,), RECOVERING)
    assert state.leader_epoch == before.leader_epoch + 1  # it may have lost what others have, and writes other records


# Settings


def test_k16540_a_change_of_the_minimum_clears_what_was_eligible_where_somebody_leads() -> None:
    for resource, name in ((TOPIC_RESOURCE, "a"), (BROKER_RESOURCE, ALL_NODES)):
        image = image_with()
        stop(image, 2, 1)
        before = state_of(image)

        take(image, set_configs(image, resource, name, {"min.insync.replicas": "1"}))

        assert told(image) == (0, (0,), (), ())
        assert state_of(image).partition_epoch == before.partition_epoch + 1
        assert state_of(image).leader_epoch == before.leader_epoch


def test_a_change_of_the_minimum_keeps_the_eligible_where_nobody_could_acknowledge() -> None:
    image = image_with()
    stop(image, 2, 1, 0)

    take(image, set_configs(image, TOPIC_RESOURCE, "a", {"min.insync.replicas": "1"}))
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))
    let_in(image, 1)

    assert told(image) == (1, (1,), (), ())


def test_another_setting_clears_nothing() -> None:
    image = image_with()
    stop(image, 2, 1)

    assert len(set_configs(image, TOPIC_RESOURCE, "a", {"retention.ms": "1"}).records) == 1


def test_an_unclean_leader_is_elected_where_the_topic_asks_for_it() -> None:
    image = image_with(minimum=1, unclean_leader_election_enable="true")
    stop(image, 2, 1)
    let_in(image, 2)

    stop(image, 0)

    assert told(image) == (2, (2,), (), ())
    assert state_of(image).recovery_state == RECOVERING


def test_the_rules_of_a_topic_are_its_own_then_those_of_all_nodes() -> None:
    image = image_with(flush_policy="os")
    topic = image.get_topic("a")

    assert rules_of(image, topic) == ElectionRules(2, may_be_unclean=False, is_flushed=False)
    cluster = {"unclean.leader.election.enable": "true", "log.flush.policy": "os", "min.insync.replicas": "3"}
    take(image, set_configs(image, BROKER_RESOURCE, ALL_NODES, cluster))
    take(image, set_configs(image, TOPIC_RESOURCE, "a", {"flush.policy": "fsync", "min.insync.replicas": None}))
    assert rules_of(image, topic) == ElectionRules(3, may_be_unclean=True, is_flushed=True)


def test_whoever_knows_more_settings_passes_its_own_rules() -> None:
    image = image_with(minimum=1)
    stop(image, 2, 1)
    let_in(image, 2)

    take(image, fence(image, 0, rules=lambda _image, _topic: ElectionRules(may_be_unclean=True)))

    assert state_of(image).leader == 2


# On request


def test_an_operator_gets_an_eligible_leader_before_any_other() -> None:
    image = image_with()
    stop(image, 2, 1, 0)
    for node in (2, 1):
        image.apply(msgspec.structs.replace(image.nodes[node], is_fenced=False))

    elected = take(image, elect_unclean(image, "a", 0))

    assert (elected.leader, elected.recovery_state) == (1, RECOVERED)
    with pytest.raises(ElectionNotNeeded):
        elect_unclean(image, "a", 0)


def test_an_operator_gets_any_leader_if_there_is_one() -> None:
    image = image_with(minimum=1)
    stop(image, 2, 1, 0)
    with pytest.raises(EligibleLeadersNotAvailable):
        elect_unclean(image, "a", 0)
    let_in(image, 2)

    elected = take(image, elect_unclean(image, "a", 0))

    assert told(image) == (2, (2,), (), ())
    assert elected.recovery_state == RECOVERING


def test_leaders_are_elected_each_for_itself_and_once() -> None:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1), 1: (1, 2)})])
    stop(image, 0)
    let_in(image, 0)
    take(image, set_isr(image, (1, 0)))

    decision = elect_leaders(image, [("a", 0), ("a", 1), ("a", 0), ("no", 0)])

    assert len(decision.records) == 1
    first, second, again, unknown = decision.reply
    assert isinstance(first, PartitionRecord)
    assert (first.leader, again) == (0, first)
    assert isinstance(second, ElectionNotNeeded)
    assert isinstance(unknown, UnknownTopicOrPartition)


def set_isr(image: Image, isr: tuple[int, ...]) -> MetadataDecision[None]:
    return MetadataDecision([msgspec.structs.replace(state_of(image), isr=isr)], None)


def test_in_rounds_unclean_leaders_are_elected_only_where_that_is_allowed() -> None:
    image = image_with(minimum=1)
    stop(image, 2, 1)
    let_in(image, 2)
    stop(image, 0)
    assert elect_where_allowed(image).reply == 0

    take(image, set_configs(image, TOPIC_RESOURCE, "a", {"unclean.leader.election.enable": "true"}))

    assert elect_where_allowed(image, limit=0).reply == 0
    assert take(image, elect_where_allowed(image)) == 1
    assert state_of(image).leader == 2
    assert elect_where_allowed(image).reply == 0


def test_the_preferred_leader_may_come_from_the_eligible() -> None:
    image = image_with()
    stop(image, 2, 1, 0)
    image.apply(msgspec.structs.replace(image.nodes[0], is_fenced=False))

    take(image, elect_preferred(image, "a", 0))

    assert told(image) == (0, (0,), (1,), ())


def test_preferred_leaders_come_back_so_many_in_a_round() -> None:
    image = image_of(3, [NewTopic("a", assignments=dict.fromkeys(range(5), (0, 1, 2)))])
    stop(image, 0)
    let_in(image, 0)
    assert balance(image).records == []  # not in sync yet
    for state in list(image.get_topic("a").partitions.values()):
        image.apply(msgspec.structs.replace(state, isr=(0, 1, 2)))

    assert take(image, balance(image, limit=3)) == 3
    assert take(image, balance(image, limit=3)) == 2
    assert {state.leader for state in image.get_topic("a").partitions.values()} == {0}
    image.apply(msgspec.structs.replace(state_of(image), leader=1))
    image.apply(msgspec.structs.replace(image.nodes[0], is_leaving=True))
    assert balance(image).reply == 0


# Levels


def at_level(image: Image, level: int, *, elr: int = 1) -> Image:
    return apply_all(image, [FeatureRecord(METADATA_VERSION, level), FeatureRecord(ELR_VERSION, elr)])


@pytest.mark.parametrize(("level", "elr"), [(SEVERAL_NODES, 1), (SEVERAL_REPLICAS, 0)])
def test_without_the_level_or_the_feature_the_last_one_stays_in_sync(level: int, elr: int) -> None:
    image = at_level(image_with(), level, elr=elr)
    assert not has_elr(image)

    stop(image, 2, 1, 0)

    assert told(image) == (NO_LEADER, (0,), (), ())
    let_in(image, 1)
    elected = elect_unclean(image, "a", 0)
    check_level(image, elected.records)
    assert (elected.reply.leader, elected.reply.isr) == (1, (1,))


def test_who_was_eligible_stays_so_when_the_feature_goes() -> None:
    image = at_level(image_with(), SEVERAL_REPLICAS)
    stop(image, 2, 1, 0)
    image.apply(FeatureRecord(ELR_VERSION, 0))

    let_in(image, 1)

    assert told(image) == (1, (1,), (0,), ())


@pytest.mark.parametrize(
    "change", [{"elr": (1,)}, {"last_known_elr": (1,)}, {"recovery_state": 1}, {"adding": (1,)}, {"removing": (1,)}]
)
def test_the_new_fields_need_the_new_level(change: dict[str, object]) -> None:
    image = at_level(image_with(), SEVERAL_NODES)
    record = msgspec.structs.replace(state_of(image), **change)

    assert needed_level(record) == SEVERAL_REPLICAS
    with pytest.raises(UnsupportedVersion):
        check_level(image, [record])
    assert decode_record(encode_record(record)) == record


def test_a_record_from_before_the_new_fields_is_read() -> None:
    record = PartitionRecord(UUID(int=1), 0, (1,), (1,), 1, 2, 3)
    fields = msgspec.msgpack.decode(encode_record(record))

    old = msgspec.msgpack.encode(fields[:8])

    assert decode_record(old) == record


@pytest.mark.parametrize("replicas", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("gone", [(), (0,), (2,), (0, 2)])
def test_whom_a_leader_takes_for_its_successor_is_elected_when_it_is_fenced(
    replicas: tuple[int, ...], gone: tuple[int, ...]
) -> None:
    image = image_with(replicas=replicas)
    stop(image, *gone)
    state = state_of(image)
    expected = stand_in(image, state)

    stop(image, state.leader)

    assert state_of(image).leader == expected


def test_a_leader_alone_in_its_isr_takes_an_eligible_replica_for_its_successor() -> None:
    image = image_with()
    stop(image, 1, 2)
    assert stand_in(image, state_of(image)) == NO_LEADER
    let_in(image, 2)
    assert (state_of(image).isr, state_of(image).elr) == ((0,), (2,))
    assert stand_in(image, state_of(image)) == 2
    stop(image, 0)
    assert state_of(image).leader == 2


def test_nobody_succeeds_the_leader_of_a_partition_with_one_replica() -> None:
    image = image_with(replicas=(1,))

    assert stand_in(image, state_of(image)) == NO_LEADER
