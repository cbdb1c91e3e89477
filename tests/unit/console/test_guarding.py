"""Who may call the console, whose log-in is kept where, and where a log-in leads back to."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from barnabas.cli.console import root_of
from barnabas.console.guarding import Guard, below_root, refusal
from barnabas.console.paging import address, group_address, own_page, place, topic_address
from barnabas.console.sessions import MAX_SESSIONS, Sessions
from barnabas.core.errors import InvalidConfig


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:9645", None),
        ("[::1]:9645", "http://[::1]:9645"),
        ("localhost:9645", "http://localhost:9645"),
        ("console.example", "https://console.example"),
    ],
)
def test_its_own_names_and_pages_are_taken(host: str, origin: str | None) -> None:
    assert refusal(host, origin, ["console.example"]) is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", None),
        ("", None),
        ("127.0.0.1:9645", "http://evil.example"),
        ("127.0.0.1:9645", "http://127.0.0.1:8000"),
        ("127.0.0.1:9645", "null"),
        ("[", None),
    ],
)
def test_others_are_refused(host: str, origin: str | None) -> None:
    assert refusal(host, origin) is not None


def call(kind: str, headers: list[tuple[bytes, bytes]]) -> tuple[list[Any], list[MutableMapping[str, Any]]]:
    seen: list[Any] = []
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    asyncio.run(Guard(app)({"type": kind, "headers": headers}, receive, send))
    return seen, sent


def test_a_socket_of_another_origin_is_closed_before_the_application_sees_it() -> None:
    seen, sent = call("websocket", [(b"host", b"127.0.0.1"), (b"origin", b"http://evil.example")])
    assert seen == []
    assert sent[0]["type"] == "websocket.close"


def test_what_a_proxy_would_say_is_dropped_and_answers_are_not_framed() -> None:
    seen, sent = call("http", [(b"host", b"127.0.0.1"), (b"x-forwarded-prefix", b"//evil.example")])
    assert seen == [{b"host": b"127.0.0.1"}]
    assert (b"x-frame-options", b"DENY") in sent[0]["headers"]


def test_tokens_are_kept_by_session_and_forgotten() -> None:
    sessions = Sessions()
    sessions.log_in("a", "token-a")
    assert (sessions.token("a"), sessions.token("b")) == ("token-a", None)
    sessions.log_out("a")
    assert sessions.token("a") is None


def test_of_too_many_log_ins_the_first_goes() -> None:
    sessions = Sessions()
    for number in range(MAX_SESSIONS + 1):
        sessions.log_in(str(number), "token")
    assert sessions.token("0") is None
    assert sessions.token("1") == "token"


@pytest.mark.parametrize(
    "text", ["", "https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_log_in_leads_to_no_other_site(text: str) -> None:
    assert own_page(text) == "/"


def test_a_log_in_leads_back_to_the_page() -> None:
    assert own_page("/topics?search=a") == "/topics?search=a"


def test_addresses_have_the_filter_and_nothing_that_is_empty() -> None:
    assert address("/topics", {"search": "a&b", "after": ""}) == "/topics?search=a%26b"
    assert address("/m", {"filter": ["a:eq:1", "", "b:eq:2"]}) == "/m?filter=a%3Aeq%3A1&filter=b%3Aeq%3A2"
    assert group_address('<a href="x">/') == "/group?name=%3Ca+href%3D%22x%22%3E%2F"
    assert topic_address("a b", "messages") == "/topics/a%20b/messages"


def test_what_part_of_all_is_shown() -> None:
    assert place(5, 5, is_first=True, has_next=False) == "5 in all"
    assert place(100, 4000, is_first=True, has_next=True) == "100 of 4\u202f000"


@pytest.mark.parametrize(
    ("path", "seen"), [("/bus/topics", "/topics"), ("/bus", "/"), ("/topics", "/topics"), ("/business", "/business")]
)
def test_below_a_root_path_pages_are_where_they_always_are(path: str, seen: str) -> None:
    scope = below_root({"type": "http", "path": path, "headers": []}, "/bus")

    assert (scope["path"], scope["raw_path"]) == (seen, seen.encode())
    assert scope["headers"] == [(b"x-forwarded-prefix", b"/bus")]


def test_without_a_root_path_nothing_changes() -> None:
    scope = {"type": "http", "path": "/bus/topics", "headers": []}
    assert below_root(scope, "") is scope


@pytest.mark.parametrize("path", ["bus", "/a b", "/a/../b?", "//evil", "/<b>", "/'x'"])
def test_a_root_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfig, match="--root-path"):
        root_of(path)
    assert root_of("/") == ""
    assert root_of("/bus/console/") == "/bus/console"
