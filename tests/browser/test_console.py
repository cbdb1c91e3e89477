"""The console as a process of its own, on a node with real data: its pages, and in a browser what is done with them."""

from collections.abc import Iterator

import httpx
import pytest

from barnabas import EmbeddedBroker
from tests.browser.driver import CHROMIUM, DRIVER, MISSING, Browser, browser, wait_until
from tests.browser.showcase import SETTINGS, console, fill, fill_oddly, wait_for_api

pytestmark = pytest.mark.xdist_group("console")
in_browser = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING)
PAGES = (
    ("/", "Overview"),
    ("/topics", "orders"),
    ("/topics?search=ord", "orders"),
    ("/topics/orders", "retention.ms"),
    ("/topics/orders/messages", "customer"),
    ("/topics/orders/live", "Waiting for messages"),
    ("/groups", "billing"),
    ("/group?name=billing", "Held by"),
    ("/nodes", "Replica map"),
    ("/transactions", "transfers-1"),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as running:
        wait_for_api(running)
        open_one = fill(running)
        fill_oddly(running)
        yield running
        open_one.abort_transaction()


@pytest.fixture(scope="module")
def at(broker: EmbeddedBroker) -> Iterator[str]:
    with console(broker.http) as address:
        yield address


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize(("path", "text"), PAGES)
def test_every_page_is_served_with_its_data(at: str, path: str, text: str) -> None:
    answer = httpx.get(at + path, trust_env=False, timeout=30)
    assert answer.status_code == 200
    assert text in answer.text
    assert len(answer.content) < 1_000_000


def test_a_page_of_another_origin_or_name_is_refused(at: str) -> None:
    socket = f"{at}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert httpx.get(socket, headers={"Origin": "http://evil.example"}, trust_env=False).status_code == 403
    assert httpx.get(at, headers={"Host": "evil.example"}, trust_env=False).status_code == 403


def test_a_topic_that_does_not_exist_says_so(at: str) -> None:
    answer = httpx.get(f"{at}/topics/nothing", trust_env=False, timeout=30)
    assert "This cannot be shown" in answer.text


def test_the_list_of_topics_says_who_lags(broker: EmbeddedBroker) -> None:
    def orders() -> dict[str, object]:
        rows = httpx.get(f"{broker.http}/api/v1/topics", trust_env=False).json()["topics"]
        return next(row for row in rows if row["name"] == "orders")

    row = wait_until(lambda: orders() if orders()["groups"] else None, "the lag is measured")
    assert row["groups"] == 1
    assert row["lag"] == 400 - 3 * 20
