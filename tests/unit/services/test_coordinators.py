import asyncio
from functools import reduce

import pytest

from barnabas.services.coordinators import java_hash, partition_of
from tests.unit.edge.kafka.holding import Held


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("abc", 96354),
        ("hello", 99162322),
        ("my-group", -1906497762),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("😀", 1772899),
    ],
)
def test_the_hash_of_a_name_is_that_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_every_name_has_a_partition_the_lowest_hash_too() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("hello", 50) == 22
    assert partition_of("my-group", 50) == 12  # of the absolute value of a negative hash
    assert all(0 <= partition_of(f"group-{number}", 7) < 7 for number in range(100))


def test_a_long_name_is_hashed_without_a_call_for_each_letter() -> None:
    name = "gr\u00fc\u00dfe \U0001f600" * 4000
    data = name.encode("utf-16-be")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    expected = reduce(lambda value, unit: (31 * value + unit) % 2**32, units, 0)

    async def scenario() -> tuple[int, Held]:
        with Held() as held:
            hashed = java_hash(name)
        return hashed, held

    hashed, held = asyncio.run(scenario())

    assert hashed % 2**32 == expected
    assert held.longest < len(units) / 8
