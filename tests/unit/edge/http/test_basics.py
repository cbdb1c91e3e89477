"""What is answered before the API is there, and where it is not."""

import asyncio

import pytest

from barnabas.edge.http.basics import Basics
from barnabas.edge.http.hosts import HostCheck
from barnabas.edge.http.plain import PlainServer


def status_of(basics: Basics, method: str, path: str) -> int:
    server = PlainServer(basics.answer, HostCheck([], []))
    answer, _ = asyncio.run(server._answer_to(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:9644\r\n\r\n", ("", 0)))
    return answer.status


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_of_the_api_is_not_there_yet_while_the_api_is_coming(method: str) -> None:
    basics = Basics()
    basics.is_api_coming = True

    assert status_of(basics, method, "/api/v1/topics/orders") == 503


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_of_the_api_is_not_found_where_there_is_no_api(method: str) -> None:
    assert status_of(Basics(), method, "/api/v1/topics/orders") == 404


def test_other_paths_are_for_get_alone() -> None:
    assert status_of(Basics(), "POST", "/healthz") == 405
    assert status_of(Basics(), "GET", "/healthz") == 200
