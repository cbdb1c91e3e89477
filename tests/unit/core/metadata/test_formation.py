"""What a data directory becomes that belongs to nothing yet."""

from uuid import UUID

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.formation import MetaProperties, Place, check_belongs, identity_of_new

ALONE = Place(1, None, is_controller=True)
STOCK = ALONE._replace(bootstrap=[("localhost", 9093)], own=[("", 9092), ("", 9093)])


def formed(place: Place) -> MetaProperties:
    return identity_of_new(place, cluster_id="drawn", directory_id=UUID(int=5))


@pytest.mark.parametrize(
    "place",
    [
        ALONE,
        STOCK,
        STOCK._replace(bootstrap=[("Host", 9093)], own=[("host", 9093)]),
        ALONE._replace(voters=(1,)),
    ],
)
def test_a_node_whose_settings_name_nobody_else_forms_its_own_cluster(place: Place) -> None:
    assert formed(place) == MetaProperties("drawn", 1, UUID(int=5))
    assert formed(place._replace(cluster_id="given")).cluster_id == "given"


@pytest.mark.parametrize(
    "place",
    [
        ALONE._replace(voters=(1, 2, 3)),
        ALONE._replace(voters=(2,)),
        STOCK._replace(bootstrap=[("localhost", 9094)]),
        STOCK._replace(bootstrap=[("localhost", 9093), ("elsewhere", 9093)]),
        STOCK._replace(own=[("10.0.0.1", 9093)]),
        STOCK._replace(is_controller=False),
    ],
)
def test_a_node_with_others_must_have_been_formatted_or_know_its_cluster(place: Place) -> None:
    with pytest.raises(InvalidConfig, match=r"not formatted.*run barnabas format.*or set cluster\.id"):
        formed(place)
    assert formed(place._replace(cluster_id="given")).cluster_id == "given"


def test_a_broker_without_any_controller_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"set controller\.quorum\.bootstrap\.servers"):
        formed(ALONE._replace(is_controller=False, cluster_id="given"))


def test_data_of_another_node_or_cluster_are_refused() -> None:
    found = MetaProperties("ours", 1, UUID(int=5))
    check_belongs(found, STOCK._replace(bootstrap=[("elsewhere", 1)]))
    check_belongs(found, ALONE._replace(cluster_id="ours"))
    with pytest.raises(InvalidConfig, match=r"node\.id is 2, but the data are those of node 1"):
        check_belongs(found, ALONE._replace(node_id=2))
    with pytest.raises(InvalidConfig, match=r"cluster\.id is theirs, but the data are those of cluster ours"):
        check_belongs(found, ALONE._replace(cluster_id="theirs"))
