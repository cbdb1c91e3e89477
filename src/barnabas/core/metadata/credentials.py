"""Decisions about SCRAM credentials: who may log in by which password.

A request changes the credentials of many users, each by itself: what is wrong with one does not harm the others.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.errors import (
    BarnabasError,
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    MetadataRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)

RESERVED_PREFIX: Final = "$node-"
"""What the names of nodes begin with, and of no user."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
MAX_NAME_CHARS: Final = 1024
MAX_CREDENTIALS: Final = 100_000


class Removal(NamedTuple):
    """A user shall no longer log in by this mechanism."""

    user: str
    mechanism: int


Outcomes: TypeAlias = dict[str, BarnabasError | None]
"""Why the credentials of a user were not changed; None if they were."""


def alter_credentials(
    image: Image, removals: Sequence[Removal], additions: Sequence[ScramCredentialRecord]
) -> MetadataDecision[Outcomes]:
    """Remove and set credentials; the reply says for each user what became of it, in the order of the request."""
    users = [each.user for each in removals] + [each.user for each in additions]
    named = Counter([(each.user, each.mechanism) for each in removals])
    named.update((each.user, each.mechanism) for each in additions)
    outcomes: Outcomes = dict.fromkeys(users)
    for (user, _), count in named.items():
        if count > 1:
            outcomes[user] = DuplicateResource("A user credential cannot be altered twice in the same request")
    room = MAX_CREDENTIALS - len(image.credentials)
    for removal in removals:
        outcomes[removal.user] = outcomes[removal.user] or _problem_of_removal(image, removal)
    for addition in additions:
        is_new = (addition.user, addition.mechanism) not in image.credentials
        outcomes[addition.user] = outcomes[addition.user] or _problem_of(addition, room=room if is_new else 1)
        room -= is_new
    records: list[MetadataRecord] = [
        RemoveScramCredentialRecord(*each) for each in removals if outcomes[each.user] is None
    ]
    records += [each for each in additions if outcomes[each.user] is None]
    return MetadataDecision(records, outcomes)


def _problem_of_removal(image: Image, removal: Removal) -> BarnabasError | None:
    problem = _problem_of_name(removal.user, removal.mechanism)
    if problem is None and removal not in image.credentials:
        return ResourceNotFound("Attempt to delete a user credential that does not exist")
    return problem


def _problem_of(credential: ScramCredentialRecord, *, room: int) -> BarnabasError | None:
    problem = _problem_of_name(credential.user, credential.mechanism)
    if problem is not None:
        return problem
    if not MIN_ITERATIONS <= credential.iterations <= MAX_ITERATIONS:
        return UnacceptableCredential(
            f"{credential.iterations} iterations; allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    if not credential.salt or not credential.stored_key:
        return UnacceptableCredential("a credential needs a salt and a salted password")
    if room < 1:
        return UnacceptableCredential(f"there are already {MAX_CREDENTIALS} credentials, the maximum")
    return None


def _problem_of_name(user: str, mechanism: int) -> BarnabasError | None:
    if not user or len(user) > MAX_NAME_CHARS:
        return UnacceptableCredential("Username must not be empty, nor longer than 1024 characters")
    if user.startswith(RESERVED_PREFIX):
        return UnacceptableCredential(f"names that begin with {RESERVED_PREFIX} are those of nodes")
    if mechanism not in (SCRAM_SHA_256, SCRAM_SHA_512):
        return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    return None
