"""SCRAM against the example of RFC 7677, and what is refused of it."""

import base64

import pytest

from barnabas.core.access.cluster_secret import ClusterSecret
from barnabas.core.access.scram import (
    DIGESTS,
    ClientFirst,
    Credential,
    challenge,
    credential_of,
    is_password,
    read_first,
    salted_password,
    stand_in,
    verify,
)
from barnabas.core.access.scram_client import check_verdict, first_message, prove
from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed

MECHANISM = "SCRAM-SHA-256"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CREDENTIAL = credential_of(MECHANISM, salted_password(MECHANISM, "pencil", SALT, 4096), salt=SALT, iterations=4096)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
LAST = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_the_example_of_the_rfc_is_let_in() -> None:
    asked = challenge(read_first(FIRST), CREDENTIAL, nonce=NONCE)
    assert asked.message == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert verify(MECHANISM, asked, LAST) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", DIGESTS)
def test_a_node_logs_in_with_the_secret_of_its_cluster_and_with_no_other(mechanism: str) -> None:
    secret, other = ClusterSecret("s" * 32), ClusterSecret("t" * 32)
    first = read_first(first_message("$node-1", "abc"))
    asked = challenge(first, secret.credential(mechanism), nonce="def")

    def answer(by: ClusterSecret) -> bytes | None:
        salted, salt = by.salted(mechanism), secret.salt(mechanism)
        proof = prove(mechanism, "$node-1", "abc", asked.message, salted=salted, salt=salt, iterations=4096)
        verdict = verify(mechanism, asked, proof.message)
        if verdict is not None:
            check_verdict(proof, verdict)
            with pytest.raises(SaslAuthenticationFailed):
                check_verdict(proof, b"v=" + base64.b64encode(b"another"))
        return verdict

    assert answer(secret) is not None
    assert answer(other) is None


def test_a_secret_that_is_short_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="openssl rand"):
        ClusterSecret("short")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=" + b"x" * 2000 + b",r=abc",
        b"\xff\xfe",
        b"n,,n=user,r=" + b"x" * 9000,
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        read_first(message)


def test_a_name_with_both_escaped_characters_is_read() -> None:
    assert read_first(b"n,a=a=2Cb=3D,n=a=2Cb=3D,r=x") == ClientFirst("a,b=", "x", "n=a=2Cb=3D,r=x")


@pytest.mark.parametrize(
    "message", [b"", b"c=biws", b"c=eSws,r=x,p=", LAST.replace(b"p=d", b"p=!"), LAST[:-10], b"\xff", LAST[:70] + b",p="]
)
def test_what_is_no_last_message_is_refused(message: bytes) -> None:
    asked = challenge(read_first(FIRST), CREDENTIAL, nonce=NONCE)
    with pytest.raises(SaslAuthenticationFailed):
        verify(MECHANISM, asked, message)


def test_a_wrong_proof_and_one_of_another_login_are_not_accepted() -> None:
    asked = challenge(read_first(FIRST), CREDENTIAL, nonce=NONCE)
    assert verify(MECHANISM, asked, LAST.replace(b"p=dHz", b"p=dHx")) is None
    assert verify(MECHANISM, challenge(read_first(FIRST), CREDENTIAL, nonce="another"), LAST) is None


def test_a_password_is_checked_against_what_is_stored() -> None:
    assert is_password(MECHANISM, CREDENTIAL, "pencil")
    assert not is_password(MECHANISM, CREDENTIAL, "Pencil")


def test_a_user_who_does_not_exist_always_has_the_same_salt_and_no_password() -> None:
    made = stand_in(MECHANISM, "nobody", b"secret")
    assert made == stand_in(MECHANISM, "nobody", b"secret")
    assert made.salt != stand_in(MECHANISM, "someone", b"secret").salt
    assert len(made.salt) == 16
    assert isinstance(made, Credential)
    assert not is_password(MECHANISM, made, "")
