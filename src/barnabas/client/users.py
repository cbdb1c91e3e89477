"""Users who log in by SCRAM or PLAIN: made, listed, removed. Passwords leave this process only salted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from barnabas.client.errors import translate
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidConfig, ResourceNotFound

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 4096
_NUMBERS: Final = {name: getattr(ScramMechanism, name.replace("-", "_")) for name in MECHANISMS}
_NAMES: Final = {int(number.value): name for name, number in _NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user, and by which mechanism with how many iterations it can log in."""

    name: str
    mechanisms: dict[str, int]


class Users:
    """The users of a cluster."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._admin = settings.admin()
        self._timeout_s = timeout_s

    def create(
        self, name: str, password: str, *, mechanisms: Sequence[str] = MECHANISMS, iterations: int = ITERATIONS
    ) -> None:
        """Make a user, or give it another password."""
        if not password:
            raise InvalidConfig("the password is empty")
        self._alter(
            [
                UserScramCredentialUpsertion(name, ScramCredentialInfo(_number(each), iterations), password.encode())
                for each in mechanisms
            ],
            f"make user {name}",
        )

    def list(self) -> list[UserInfo]:
        """All users, by name."""
        try:
            asked: Any = self._admin.describe_user_scram_credentials(request_timeout=self._timeout_s)
            found = asked.result()
        except KafkaException as error:
            raise translate(error, "list the users") from None
        return [
            UserInfo(name, {_name(each.mechanism): int(each.iterations) for each in described.scram_credential_infos})
            for name, described in sorted(found.items())
        ]

    def delete(self, name: str, *, mechanisms: Sequence[str] = ()) -> None:
        """Remove a user, or only by these mechanisms; connections that it has stay."""
        known = {user.name: user for user in self.list()}
        if name not in known:
            raise ResourceNotFound(f"user '{name}' does not exist")
        wanted = mechanisms or tuple(known[name].mechanisms)
        self._alter([UserScramCredentialDeletion(name, _number(each)) for each in wanted], f"remove user {name}")

    def _alter(self, changes: Sequence[Any], what: str) -> None:
        # One request for each: a request may name a user only once for each mechanism, and librdkafka once in all.
        for change in changes:
            try:
                for outcome in self._admin.alter_user_scram_credentials(
                    [change], request_timeout=self._timeout_s
                ).values():
                    outcome.result()
            except KafkaException as error:
                raise translate(error, what) from None


def _number(mechanism: str) -> Any:
    if mechanism.upper() not in _NUMBERS:
        raise InvalidConfig(f"mechanism {mechanism!r} does not exist; use {' or '.join(MECHANISMS)}")
    return _NUMBERS[mechanism.upper()]


def _name(mechanism: Any) -> str:
    return _NAMES.get(int(getattr(mechanism, "value", mechanism)), str(mechanism))
