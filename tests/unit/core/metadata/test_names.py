"""Names of topics: Kafka's rules."""

import pytest

from barnabas.core.errors import InvalidTopic
from barnabas.core.metadata.names import check_topic_name, collides, is_internal


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249, "-", "__consumer_offsets"])
def test_a_name_of_legal_characters_is_taken(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the empty string is not allowed"),
        (".", r"'\.' is not allowed"),
        ("..", r"'\.\.' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "characters other than"),
        ("a/b", "characters other than"),
        ("a\n", "characters other than"),
        ("ä", "characters other than"),
        ("\u0663", "characters other than"),
    ],
)
def test_any_other_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidTopic, match=f"Topic name is invalid: (?s:.*){message}"):
        check_topic_name(name)


def test_names_that_differ_in_dots_and_underscores_alone_collide() -> None:
    assert collides("a.b", "a_b")
    assert collides("a.b", "a.b")
    assert not collides("a.b", "a-b")


def test_the_topics_of_the_broker_are_internal() -> None:
    internal = ["__consumer_offsets", "__transaction_state", "__share_group_state"]

    assert [name for name in [*internal, "__cluster_metadata", "a"] if is_internal(name)] == internal
