"""Who a client is by its certificate, its token, or the text that made it a user."""

from typing import Any

import pytest

from barnabas.core.access.bearer import BearerLogin, TokenRules, check_claims, read_bearer
from barnabas.core.access.certificates import parse_mapping_rules, user_of
from barnabas.core.access.plain import PlainLogin, read_plain
from barnabas.core.access.scram_text import NewUser, parse_user
from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=([^,]*),OU=([^,]*),.*$/$1@$2/U", "DUKE@SERVICEUSERS"),
        ("RULE:^CN=Nobody$/x/, RULE:^.*$/anybody/,DEFAULT", "anybody"),
        (r"RULE:^CN=(.*?),.*$/\/$1/", "/Duke"),
        ("RULE:^CN=Duke$/part/,DEFAULT", NAME),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules: str, user: str) -> None:
    assert user_of(NAME, parse_mapping_rules(rules)) == user


def test_a_name_without_a_rule_is_nobody() -> None:
    with pytest.raises(SaslAuthenticationFailed):
        user_of(NAME, parse_mapping_rules("RULE:^CN=Nobody$/x/"))


@pytest.mark.parametrize("rules", ["RULE:a/b", "RULE:(/b/", "RULE:a/b/X", "SOME", "RULE:a/b/,", "x" * 9000])
def test_rules_that_cannot_be_are_refused(rules: str) -> None:
    if rules.endswith(","):
        assert len(parse_mapping_rules(rules)) == 1
        return
    with pytest.raises(Exception, match=r"mapping rule"):
        parse_mapping_rules(rules)


CLAIMS: dict[str, Any] = {"sub": "ann", "iat": 100, "exp": 200, "iss": "us", "aud": ["bus"], "scope": "read write"}
RULES = TokenRules(issuer="us", audiences=("bus", "other"), required_scopes=("read",), clock_skew_s=5)


def test_a_token_names_its_user_and_its_end() -> None:
    assert check_claims(CLAIMS, RULES, now_s=150) == ("ann", 200)
    assert check_claims({**CLAIMS, "aud": "bus"}, RULES, now_s=204).user == "ann"


@pytest.mark.parametrize(
    ("change", "now_s"),
    [
        ({}, 206),
        ({}, 90),
        ({"nbf": 160}, 150),
        ({"iss": "them"}, 150),
        ({"aud": []}, 150),
        ({"aud": None}, 150),
        ({"scope": "write"}, 150),
        ({"scope": None}, 150),
        ({"sub": ""}, 150),
        ({"sub": 7}, 150),
        ({"exp": "200"}, 150),
        ({"exp": True}, 150),
        ({"exp": None}, 150),
        ({"iat": None}, 150),
    ],
)
def test_a_token_that_is_not_for_us_or_not_now_is_refused(change: dict[str, Any], now_s: float) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        check_claims({**CLAIMS, **change}, RULES, now_s=now_s)


def test_a_token_is_read_from_its_message() -> None:
    assert read_bearer(b"n,,\x01auth=Bearer abc\x01\x01") == BearerLogin("abc", "")
    assert read_bearer(b"n,a=ann,\x01auth=bearer abc\x01traceId=1\x01\x01") == BearerLogin("abc", "ann")
    assert "abc" not in repr(read_bearer(b"n,,\x01auth=Bearer abc\x01\x01"))


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,", b"n,,\x01auth=Basic abc\x01\x01", b"n,,\x01\x01", b"y,,\x01auth=Bearer a\x01\x01", b"\xff"],
)
def test_what_is_no_message_with_a_token_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        read_bearer(message)


def test_plain_has_a_user_and_a_password() -> None:
    assert read_plain(b"\0ann\0secret") == read_plain(b"ann\0ann\0secret") == PlainLogin("ann", "secret")
    assert "secret" not in repr(read_plain(b"\0ann\0secret"))


@pytest.mark.parametrize(
    "message", [b"", b"ann\0secret", b"\0\0x", b"\0ann\0", b"bob\0ann\0x", b"\0a\0b\0c", b"\0\xff\0x"]
)
def test_what_is_no_plain_login_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        read_plain(message)


def test_a_user_is_read_as_kafka_writes_it() -> None:
    assert parse_user("SCRAM-SHA-256=[name=admin,password=secret]") == NewUser("SCRAM-SHA-256", "admin", "secret", 4096)
    user = parse_user('scram-sha-512=[name=ann, password="a,b]\\"c", iterations=8192]')
    assert (user.mechanism, user.password, user.iterations) == ("SCRAM-SHA-512", 'a,b]"c', 8192)
    assert "a,b" not in repr(user)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "admin=secret",
        "PLAIN=[name=a,password=secret]",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=100]",
        "SCRAM-SHA-256=[name=a,password=secret,other=1]",
        "SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]",
        "SCRAM-SHA-256=[name=a,saltedpassword=!,salt=!]",
    ],
)
def test_a_text_that_is_no_user_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_user(text)
    assert "secret" not in str(refusal.value)
