"""Who loses its place when too many have not said yet who they are."""

from barnabas.runtime.newcomers import Newcomer, Newcomers


def newcomer(address: str, port: int, since: float = 0) -> Newcomer:
    return Newcomer((address, port), since, lambda: None)


def test_the_oldest_of_the_address_that_has_the_most_makes_room() -> None:
    places = Newcomers()
    honest, *many = newcomer("10.0.0.1", 1), *(newcomer("10.0.0.2", port) for port in range(3))
    for key, each in enumerate((honest, *many)):
        assert places.add(key, each, most=4) == []
    assert places.add("next", newcomer("10.0.0.3", 1), most=4) == [many[0]]
    assert len(places) == 4


def test_all_who_are_too_many_lose_their_places_when_there_are_fewer() -> None:
    places = Newcomers()
    for port in range(5):
        places.add(port, newcomer("10.0.0.1", port), most=5)
    assert [each.peer[1] for each in places.add("next", newcomer("10.0.0.1", 9), most=3)] == [0, 1, 2]


def test_who_is_known_or_gone_has_no_place() -> None:
    places = Newcomers()
    places.add("a", newcomer("10.0.0.1", 1), most=1)
    places.remove("a")
    places.remove("a")
    assert places.add("b", newcomer("10.0.0.1", 2), most=1) == []


def test_those_who_take_too_long_are_found() -> None:
    places = Newcomers()
    for port in range(4):
        places.add(port, newcomer("10.0.0.1", port, since=port), most=9)
    assert [each.peer[1] for each in places.older_than(1.5)] == [0, 1]
