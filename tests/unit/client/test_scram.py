"""SCRAM against the examples of its RFCs, and against brokers that do not keep to them."""

import base64

import pytest

from barnabas.client import scram as scram_module
from barnabas.client.scram import LoginFailed, scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
VERDICT = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677() -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", NONCE)

    assert next(exchange) == b"n,,n=user,r=" + NONCE.encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ending = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={proof}"
    assert exchange.send(CHALLENGE.encode()) == ending.encode()
    with pytest.raises(StopIteration):
        exchange.send(VERDICT.encode())


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scram_module.DIGESTS, "SCRAM-SHA-1", "sha1")  # which Kafka does not have
    exchange = scram("SCRAM-SHA-1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")

    assert next(exchange) == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    challenge = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    ending = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert exchange.send(challenge) == ending
    with pytest.raises(StopIteration):
        exchange.send(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_a_name_is_escaped() -> None:
    assert next(scram("SCRAM-SHA-512", "a,b=c", "p", "n0")) == b"n,,n=a=2Cb=3Dc,r=n0"


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        (b"e=unknown-user", "it refused the login: unknown-user"),
        (b"m=ext,r=x,s=x,i=1", "an unknown extension"),
        (CHALLENGE.replace(NONCE, "another").encode(), "the nonce of another login"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "the nonce of another login"),
        (CHALLENGE.replace("i=4096", "i=4095").encode(), "it asks for 4095 iterations"),
        (CHALLENGE.replace("i=4096", "i=1000001").encode(), "it asks for 1000001 iterations"),
        (CHALLENGE.replace("i=4096", "i=" + "9" * 5000).encode(), "no number of iterations"),
        (CHALLENGE.replace("i=4096", "i=-1").encode(), "no number of iterations"),
        (CHALLENGE.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=").encode(), "no salt"),
        (CHALLENGE.replace("s=W22", "s=***").encode(), "no salt"),
        (b"", "is not SCRAM"),
        (b"\xff\xfe", "is not SCRAM"),
        (b"hello", "is not SCRAM"),
    ],
)
def test_a_challenge_that_makes_no_sense_is_refused(challenge: bytes, expected: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(exchange)

    with pytest.raises(LoginFailed, match=expected):
        exchange.send(challenge)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("e=invalid-proof", "it refused the login: invalid-proof"),
        (f"v={base64.b64encode(bytes(32)).decode()}", "could not prove"),
        ("v=", "could not prove"),
        ("v=%%%", "could not prove"),
        ("x=1", "could not prove"),
    ],
)
def test_a_broker_that_does_not_prove_itself_is_refused(verdict: str, expected: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(CHALLENGE.encode())

    with pytest.raises(LoginFailed, match=expected):
        exchange.send(verdict.encode())
