"""The client of the API, with an API that is made up."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from barnabas.console import models
from barnabas.console.api import Api, ApiError, Event, NeedsLogin, Unavailable, events_of, part

Handler = Callable[[httpx.Request], httpx.Response]


def ask(handler: Handler, path: str = "/topics", **params: str) -> models.Topics:
    async def run() -> models.Topics:
        api = Api(["http://node:9644/"], transport=httpx.MockTransport(handler))
        try:
            return await api.call("GET", path, models.Topics, token="t-1", params=params)
        finally:
            await api.close()

    return asyncio.run(run())


def test_a_call_has_the_token_and_the_parameters_and_reads_what_it_knows() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://node:9644/api/v1/topics?search=a%26b"
        assert request.headers["Authorization"] == "Bearer t-1"
        return httpx.Response(200, json={"topics": [], "total": 0, "next": None, "what_is_new": 1})

    assert ask(handler, search="a&b") == models.Topics(topics=[], total=0)


def test_a_refusal_is_told_in_the_words_of_the_api() -> None:
    problem = {"error_code": 3, "error": "UNKNOWN_TOPIC_OR_PARTITION", "message": "topic 'x' does not exist"}
    with pytest.raises(ApiError, match="topic 'x' does not exist") as caught:
        ask(lambda _: httpx.Response(404, json=problem))
    assert (caught.value.status, caught.value.name) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_call_without_a_log_in_asks_for_one() -> None:
    with pytest.raises(NeedsLogin):
        ask(lambda _: httpx.Response(401, json={"message": "log in"}))


def test_a_node_that_does_not_answer_is_unavailable() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(Unavailable, match="http://node:9644 does not answer: refused"):
        ask(handler)


def test_the_next_node_is_asked_if_one_does_not_answer_and_stays_the_one() -> None:
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "one":
            raise httpx.ReadTimeout("slow", request=request)
        return httpx.Response(200, json={"topics": [], "total": 0})

    async def run() -> None:
        api = Api(["http://one", "http://two"], transport=httpx.MockTransport(handler))
        for _ in range(2):
            await api.call("GET", "/topics", models.Topics)
        await api.close()

    asyncio.run(run())
    assert asked == ["one", "two", "two"]


def test_a_change_that_may_have_been_made_is_not_asked_of_another_node() -> None:
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "one":
            raise httpx.ConnectError("refused", request=request)
        raise httpx.ReadTimeout("slow", request=request)

    async def run() -> None:
        api = Api(["http://one", "http://two", "http://three"], transport=httpx.MockTransport(handler))
        with pytest.raises(Unavailable, match="http://one and http://two does not answer: slow"):
            await api.call("POST", "/topics", models.Changed)
        await api.close()

    asyncio.run(run())
    assert asked == ["one", "two"]


@pytest.mark.parametrize("content", [b"<html>", b'{"topics": 5}', b"\xff"])
def test_an_answer_that_is_none_of_the_api_is_refused(content: bytes) -> None:
    with pytest.raises(ApiError, match="is it a Barnabas node"):
        ask(lambda _: httpx.Response(200, content=content))
    with pytest.raises(ApiError, match="status 502"):
        ask(lambda _: httpx.Response(502, content=content))


def test_what_all_look_at_is_asked_for_once() -> None:
    calls = []

    def handler(request: httpx.Request) -> httpx.Response:
        calls.append(request.headers.get("Authorization"))
        return httpx.Response(200, json={"topics": [], "total": 0})

    async def run() -> None:
        api = Api(["http://node"], transport=httpx.MockTransport(handler))
        await asyncio.gather(*(api.shared("/topics", models.Topics) for _ in range(20)))
        await api.shared("/topics", models.Topics, token="another")
        await api.close()

    asyncio.run(run())
    assert calls == [None, "Bearer another"]


def test_a_shared_refusal_reaches_all_and_the_next_that_asks_later_asks_anew() -> None:
    async def run() -> None:
        api = Api(["http://node"], transport=httpx.MockTransport(lambda _: httpx.Response(503, json={"message": "no"})))
        found = await asyncio.gather(*(api.shared("/topics", models.Topics) for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in found] == ["no"] * 3
        await api.close()

    asyncio.run(run())


def test_events_of_a_stream() -> None:
    async def lines() -> AsyncIterator[str]:
        text = 'retry: 2000\nid: 0:1\nevent: begin\ndata: {}\n\n: alive\n\nid: 0:2\nevent: record\ndata: {"a": 1}\n\n'
        for line in text.split("\n"):
            yield line

    async def run() -> list[Event]:
        return [event async for event in events_of(lines())]

    assert asyncio.run(run()) == [Event("0:1", "begin", "{}"), Event("0:2", "record", '{"a": 1}')]


def test_a_name_in_a_path_is_quoted() -> None:
    assert part("a/b?c<d") == "a%2Fb%3Fc%3Cd"
