"""A broker that comes back with an older copy of its data directory, and what the controller makes of that."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.metadata import Image
from barnabas.core.metadata.brokers import Registration, fence, is_older_copy, register
from barnabas.core.metadata.levels import GENERATIONS, METADATA_VERSION, SEVERAL_REPLICAS
from barnabas.core.metadata.records import NO_LEADER, RECOVERING, Endpoint, FeatureRecord
from tests.unit.core.metadata.test_electing import identified, image_with, let_in, state_of, stop, take, told

REGISTERED = 100


def known(image: Image) -> Image:
    """Each node was registered with the data directory 1, in generation 100."""
    identified(image)
    for node in image.nodes:
        image.apply(msgspec.structs.replace(image.nodes[node], generation=REGISTERED))
    return image


def registration(
    image: Image, node: int, *, epoch: int, previous: int | None, directory: int = 1, is_clean: bool = False
) -> Registration:
    return Registration(
        node_id=node,
        incarnation=UUID(int=epoch),
        directory_id=UUID(int=directory),
        endpoints=(Endpoint("PLAINTEXT", "h", 1),),
        previous_epoch=image.nodes[node].epoch if is_clean else None,
        generation=0 if previous is None else max(previous + 1, epoch * 10),
        previous_generation=previous,
    )


def restart(
    image: Image, node: int, *, epoch: int, previous: int | None, is_clean: bool = False, is_local: bool = False
) -> None:
    again = registration(image, node, epoch=epoch, previous=previous, is_clean=is_clean)
    take(image, register(image, again, epoch=epoch, has_session=False, is_local=is_local))


@pytest.mark.parametrize("previous", [REGISTERED, REGISTERED + 1])
def test_the_directory_that_was_registered_last_keeps_its_claim(previous: int) -> None:
    """One that is ahead began a generation, and died before it registered."""
    image = known(image_with())
    stop(image, 2, 1, 0)

    restart(image, 0, epoch=50, previous=previous)
    let_in(image, 0)

    assert told(image) == (0, (0,), (1,), ())


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("previous", [0, REGISTERED - 1])
def test_an_older_copy_is_not_eligible_however_it_was_stopped(previous: int, is_clean: bool) -> None:
    image = known(image_with())
    stop(image, 2, 1, 0)

    restart(image, 0, epoch=50, previous=previous, is_clean=is_clean)
    let_in(image, 0)
    assert told(image) == (NO_LEADER, (), (1,), ())

    let_in(image, 1)
    assert told(image) == (1, (1,), (), ())


@pytest.mark.parametrize("is_local", [False, True])
def test_with_two_replicas_the_last_leader_does_not_lead_with_old_data(is_local: bool) -> None:
    image = known(image_with(minimum=1, replicas=(0, 1)))
    stop(image, 1, 0)

    restart(image, 0, epoch=50, previous=REGISTERED - 1, is_local=is_local)
    let_in(image, 0, 1)
    assert told(image) == (NO_LEADER, (), (), ())

    restart(image, 0, epoch=51, previous=image.nodes[0].generation, is_local=is_local)  # nor after another start
    let_in(image, 0)
    assert told(image) == (NO_LEADER, (), (), ())


@pytest.mark.parametrize("is_copy_back_first", [False, True])
def test_where_the_last_leader_is_an_older_copy_who_was_eligible_leads_though_it_stopped_uncleanly(
    is_copy_back_first: bool,
) -> None:
    """Both processes ended at once, and the one that was noticed last led for a moment, dead as it was."""
    image = known(image_with(flush_policy="os", replicas=(0, 1)))
    take(image, fence(image, 1))
    take(image, fence(image, 0))
    assert told(image) == (NO_LEADER, (), (0, 1), (0,))

    for node in (0, 1) if is_copy_back_first else (1, 0):
        restart(image, node, epoch=50 + node, previous=REGISTERED - 1 if node == 0 else REGISTERED)
        let_in(image, node)

    assert told(image) == (1, (1,), (), ())
    assert state_of(image).recovery_state == RECOVERING


@pytest.mark.parametrize("is_local", [False, True])
def test_the_only_replica_leads_with_what_was_restored_under_a_new_epoch(is_local: bool) -> None:
    image = known(image_with(minimum=1, replicas=(0,)))
    epoch = state_of(image).leader_epoch

    restart(image, 0, epoch=50, previous=REGISTERED - 1, is_local=is_local)
    let_in(image, 0)

    assert told(image) == (0, (0,), (), ())
    assert state_of(image).leader_epoch > epoch


def test_of_two_copies_that_are_used_in_turn_each_is_older_than_what_the_other_registered() -> None:
    image = known(image_with())
    restart(image, 0, epoch=50, previous=REGISTERED - 1)  # a backup
    assert image.nodes[0].generation == 500

    assert is_older_copy(image, registration(image, 0, epoch=60, previous=REGISTERED))  # the disk that it replaced


def test_the_same_start_may_register_again() -> None:
    image = known(image_with())
    restart(image, 0, epoch=50, previous=REGISTERED)

    again = registration(image, 0, epoch=50, previous=REGISTERED)

    assert not is_older_copy(image, again)
    assert register(image, again, epoch=60, has_session=True).records == []


def test_who_says_nothing_of_its_directory_is_judged_as_before() -> None:
    image = known(image_with())
    stop(image, 2, 1, 0)

    restart(image, 0, epoch=50, previous=None)
    let_in(image, 0)

    assert told(image) == (0, (0,), (1,), ())


@pytest.mark.parametrize(("level", "recorded"), [(SEVERAL_REPLICAS, 0), (GENERATIONS, 500)])
def test_generations_are_recorded_once_all_nodes_know_them(level: int, recorded: int) -> None:
    image = identified(image_with())
    image.apply(FeatureRecord(METADATA_VERSION, level))
    features = ((METADATA_VERSION, 7, GENERATIONS),)
    again = msgspec.structs.replace(registration(image, 0, epoch=50, previous=0), features=features)

    take(image, register(image, again, epoch=50, has_session=False))

    assert image.nodes[0].generation == recorded
