import pytest

from barnabas.edge.http.tokens import NotAuthenticated, Tokens
from barnabas.services.authentication import Identity
from barnabas.services.session import Principal
from tests.support.ports import NOW_MS, FixedClock

ALICE = Principal("User", 'al"ice.')


class LaterClock(FixedClock):
    def now_ms(self) -> int:
        return NOW_MS + 2000


def test_a_token_says_whose_it_is() -> None:
    tokens = Tokens(b"secret", FixedClock(), lifetime_ms=1000)
    token, until_ms = tokens.give(Identity(ALICE))
    assert (tokens.check(token), until_ms) == (Identity(ALICE, NOW_MS + 1000), NOW_MS + 1000)


def test_a_token_is_valid_no_longer_than_what_it_was_given_for() -> None:
    tokens = Tokens(b"secret", FixedClock(), lifetime_ms=1000)
    token, until_ms = tokens.give(Identity(ALICE, NOW_MS + 10))
    assert (tokens.check(token).expires_at_ms, until_ms) == (NOW_MS + 10, NOW_MS + 10)


def test_a_token_of_another_node_or_one_that_is_too_old_is_refused() -> None:
    token, _ = Tokens(b"secret", FixedClock(), lifetime_ms=1000).give(Identity(ALICE))
    for tokens in (Tokens(b"other", FixedClock(), lifetime_ms=1000), Tokens(b"secret", LaterClock(), lifetime_ms=1000)):
        with pytest.raises(NotAuthenticated):
            tokens.check(token)


@pytest.mark.parametrize("token", ["", ".", "a.b", "é.é", "=" * 10, "A" * 5000, "W10.W10"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(NotAuthenticated):
        Tokens(b"secret", FixedClock(), lifetime_ms=1000).check(token)
