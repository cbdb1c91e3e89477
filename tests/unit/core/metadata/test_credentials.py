"""Decisions about SCRAM credentials: each user by itself."""

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.credentials import Removal, alter_credentials
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import RemoveScramCredentialRecord, ScramCredentialRecord


def credential(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialRecord:
    return ScramCredentialRecord(user, mechanism, b"salt", b"stored", b"server", iterations)


def code_of(problem: BarnabasError | None) -> int:
    return 0 if problem is None else problem.kafka_code


def image_with(*credentials: ScramCredentialRecord) -> Image:
    image = Image()
    for each in credentials:
        image.apply(each)
    return image


def test_users_are_made_changed_and_removed() -> None:
    image = image_with(credential("ann"), credential("bob"))
    changed = credential("ann", iterations=8192)
    decision = alter_credentials(image, [Removal("bob", 1)], [changed, credential("eve", 2)])
    assert decision.records == [RemoveScramCredentialRecord("bob", 1), changed, credential("eve", 2)]
    assert decision.reply == {"bob": None, "ann": None, "eve": None}


@pytest.mark.parametrize(
    ("removals", "additions", "code"),
    [
        ([Removal("ann", 1)], [], 91),
        ([], [credential("ann"), credential("ann")], 92),
        ([], [credential("ann", iterations=4095)], 93),
        ([], [credential("ann", iterations=16385)], 93),
        ([], [credential("")], 93),
        ([], [credential("$node-1")], 93),
        ([], [credential("x" * 2000)], 93),
        ([], [credential("ann", 3)], 33),
        ([Removal("ann", 7)], [], 33),
        ([], [ScramCredentialRecord("ann", 1, b"", b"x", b"x", 4096)], 93),
    ],
)
def test_what_is_wrong_with_one_user_does_not_harm_another(
    removals: list[Removal], additions: list[ScramCredentialRecord], code: int
) -> None:
    decision = alter_credentials(Image(), removals, [*additions, credential("bob")])
    (problem,) = {each for user, each in decision.reply.items() if user != "bob"}
    assert code_of(problem) == code
    assert decision.records == [credential("bob")]
