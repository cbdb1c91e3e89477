"""The console as a process of its own, on a node with real data: its pages, and in a browser what is done with them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Producer

from barnabas import EmbeddedBroker
from tests.browser.driver import CHROMIUM, DRIVER, ENTER, MISSING, Browser, browser, free_port, wait_until
from tests.browser.fake_api import PASSWORD, FakeApi
from tests.browser.showcase import EVIL, EVIL_GROUP, EVIL_USER, SETTINGS, console, fill, fill_oddly, wait_for_api

pytestmark = pytest.mark.xdist_group("console")
in_browser = pytest.mark.skipif(
    not os.environ.get("TEST_BROWSER") or CHROMIUM is None or DRIVER is None,
    reason=MISSING if CHROMIUM is None or DRIVER is None else "half a minute of a browser's: make browser runs it",
)
PAGES = (
    ("/", "Overview"),
    ("/topics", "orders"),
    ("/topics?search=ord", "orders"),
    ("/topics/orders", "End offset"),
    ("/topics/orders/messages", "customer"),
    ("/topics/orders/live", "Waiting for messages"),
    ("/groups", "billing"),
    ("/group?name=billing", "Held by"),
    ("/nodes", "Replica map"),
    ("/transactions", "transfers-1"),
    ("/access", "No user logs in with a password"),
    ("/access/acls", "ACLs are off"),
    ("/access/quotas", "There are no quotas here"),
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


def text_at(at: str) -> str:
    """The page there; nothing while nobody answers."""
    try:
        return httpx.get(at, trust_env=False).text
    except httpx.TransportError:
        return ""


def test_serve_starts_the_console_with_the_node_and_stops_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--console", "--data-dir", str(tmp_path)]
    port = free_port()
    settings = [
        "--listen",
        "127.0.0.1:0",
        "--set",
        "http.listener=127.0.0.1:0",
        "--console-listen",
        f"127.0.0.1:{port}",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NICEGUI", "PYTEST"))}
    with subprocess.Popen(command + settings, stdout=subprocess.PIPE, env=environment, text=True) as node:
        assert node.stdout is not None
        try:
            assert "is ready on" in node.stdout.readline()
            at = f"http://127.0.0.1:{port}"
            assert httpx.get(at, trust_env=False, timeout=30).status_code == 200  # at once
            assert f"the console is ready on {at}" in node.stdout.readline()
            wait_until(lambda: "Under-replicated" in text_at(at), "the overview is shown")
        finally:
            node.terminate()
        assert node.wait(30) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}", trust_env=False)


def test_below_a_root_path_every_address_has_it(broker: EmbeddedBroker) -> None:
    with console(broker.http, "--root-path", "/bus") as at:
        for path in ("/bus/topics", "/topics"):  # of a proxy that leaves the path as it is, and of one that does not
            page = httpx.get(at + path, trust_env=False, timeout=30).text
            assert "orders" in page
            assert "/bus/_nicegui/" in page
            assert '"/_nicegui/' not in page
        socket = f"{at}/bus/_nicegui_ws/socket.io/?EIO=4&transport=polling"
        assert httpx.get(socket, trust_env=False).status_code == 200


@in_browser
def test_below_a_root_path_links_lead_below_it(broker: EmbeddedBroker, window: Browser) -> None:
    with console(broker.http, "--root-path", "/bus") as at:
        window.go(f"{at}/bus/topics")
        window.wait_for("orders")
        window.click_text("orders", css="a")
        window.wait_for("End offset")
        assert window.run("return location.pathname") == "/bus/topics/orders"
        window.click_text("Groups", css="a")
        window.wait_for("billing")
        assert window.run("return location.pathname") == "/bus/groups"
        window.type("[data-is=search]", "bill" + ENTER)
        wait_until(lambda: window.run("return location.search") == "?search=bill", "the address has the filter")
        assert window.run("return location.pathname") == "/bus/groups"


@in_browser
def test_shown_messages_are_exported(at: str, window: Browser, tmp_path: Path) -> None:
    directory = {"behavior": "allow", "downloadPath": str(tmp_path)}
    window.command("POST", "/goog/cdp/execute", cmd="Browser.setDownloadBehavior", params=directory)
    window.go(f"{at}/topics/odd/messages?from=oldest")
    window.wait_for("all is read")
    for name, file in (("JSON lines", "odd.jsonl"), ("CSV", "odd.csv")):
        window.click("[data-is=export]")
        window.click_text(name, css=".q-item")
        wait_until((tmp_path / file).exists, f"{file} is there")
    shown = (tmp_path / "odd.jsonl").read_text().splitlines()
    assert json.loads(shown[0])["value"]["data"] == EVIL
    assert "THE END" in shown[2]
    assert "THE END" in (tmp_path / "odd.csv").read_text()


@in_browser
def test_users_acls_and_quotas_are_added_and_deleted(window: Browser) -> None:
    settings = {**SETTINGS, "authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
    with EmbeddedBroker(settings) as broker, console(broker.http) as at:
        wait_for_api(broker)
        for path, typed, seen, name in (
            ("/access", {"user-name": EVIL_USER, "user-password": "secret"}, "SCRAM-SHA-512 (4096", EVIL_USER),
            ("/access/acls", {"principal": "User:ada", "resource": "invoices"}, "topic invoices", "User:ada"),
            ("/access/quotas", {"quota-user": "ada", "limits": "producer_byte_rate=7654"}, "rate=7654", "user ada"),
        ):
            window.go(at + path)
            window.click("[data-is=add]")
            for field, text in typed.items():
                window.type(f"[data-is={field}]", text)
            window.click("[data-is=preview]")
            window.wait_for("Would be done")
            window.click("[data-is=apply]")
            window.wait_for(seen)
            window.wait_for(name)
            window.click("tbody tr")
            window.type("[data-is=typed-name]", name)
            wait_until(
                lambda: not window.run("return [...document.querySelectorAll('.q-dialog button')].at(-1).disabled"),
                "it can be deleted",
            )
            window.click_text("Delete", css=".q-dialog button")
            wait_until(lambda seen=seen: seen not in window.text(), f"{name} is deleted")  # type: ignore[misc]
            assert window.run("return window.wasHit") is None


@in_browser
def test_what_is_in_records_and_names_is_text_and_never_markup_or_code(at: str, window: Browser) -> None:
    window.go(f"{at}/topics/odd/messages?from=oldest")
    window.wait_for(EVIL)
    for row in range(3):
        window.run("document.querySelectorAll('tbody tr')[arguments[0]].click()", row)
        window.wait_for("Copy as command")
        # Each form has a height of its own, which moves the button that closes the dialog.
        window.click_text("Hex")
        window.wait_for("00000000  ")
        window.click_text("JSON")
        wait_until(lambda: "00000000  " not in window.text(), "it is shown as JSON")
        window.click("[aria-label=Close]")
        wait_until(lambda: "Copy as command" not in window.text(), "the dialog is closed")
        assert window.run("return window.wasHit") is None
    evil = quote(EVIL_GROUP)
    for path, seen in (
        ("/groups", EVIL_GROUP),
        (f"/group?name={evil}", EVIL_GROUP),
        (f"/topics?search={evil}", EVIL_GROUP),
        (f"/topics/odd/messages?filter={quote('value:contains:' + EVIL)}", EVIL),
        (f"/topics/{quote('<b>x')}", "This cannot be shown"),
    ):
        window.go(at + path)
        window.wait_for(seen)
        assert window.run("return window.wasHit") is None
        assert window.run("return document.querySelectorAll('img[src=x], .nicegui-content script').length") == 0


@in_browser
def test_a_json_value_is_laid_out_and_a_key_with_a_colon_is_nothing_special(at: str, window: Browser) -> None:
    window.go(f"{at}/topics/odd/messages?from=offset&at=1&partition=0")
    window.wait_for("wasHit")
    window.click("tbody tr")
    window.wait_for('":x": "window.wasHit=1"')
    assert window.run("return window.wasHit") is None


@in_browser
def test_a_big_value_is_cut_and_loaded_when_asked_for(at: str, window: Browser) -> None:
    window.go(f"{at}/topics/odd/messages?from=offset&at=2&partition=0")
    window.click("tbody tr")
    window.wait_for("Load all 50.0 kB")
    assert "THE END" not in window.text()
    window.click_text("Load all 50.0 kB")
    window.wait_for("THE END")


@in_browser
def test_bytes_that_are_no_text_say_why_and_are_shown_in_hex(at: str, window: Browser) -> None:
    window.go(f"{at}/topics/odd/messages?from=offset&at=3&partition=0")
    window.click("tbody tr")
    window.wait_for("Shown as bytes: not UTF-8")
    window.wait_for("00000000  ff 00 01")


@in_browser
def test_a_topic_is_created_written_to_searched_and_deleted_by_its_name(at: str, window: Browser) -> None:
    window.go(f"{at}/topics")
    window.click_text("Create a topic")
    window.type("[data-is=topic-name]", "first-steps")
    window.click_text("Preview")
    window.wait_for("Would be created with 1 partitions")
    window.click("[data-is=create]")
    window.wait_for("Nothing has been written yet")
    window.click_text("Write a message")
    window.type("[data-is=key]", "greeting")
    window.type("[data-is=value]", "hello, world")
    window.click("[data-is=write]")
    window.wait_for("Written to partition 0 at offset 0.")
    window.go(f"{at}/topics/first-steps/messages?key=greeting")
    window.wait_for("hello, world")
    window.go(f"{at}/topics/first-steps/messages?filter=value:contains:nothing-like-it")
    window.wait_for("No message is like that")
    window.go(f"{at}/topics/first-steps")
    window.click("[data-is=delete]")
    window.type("[data-is=typed-name]", "first-step")
    assert window.run("return [...document.querySelectorAll('.q-dialog button')].at(-1).disabled") is True
    window.type("[data-is=typed-name]", "s")
    wait_until(
        lambda: not window.run("return [...document.querySelectorAll('.q-dialog button')].at(-1).disabled"),
        "it can be deleted",
    )
    window.click_text("Delete", css=".q-dialog button")
    window.wait_for("Create a topic")
    wait_until(lambda: "first-steps" not in window.text(), "the topic is gone")


@in_browser
def test_a_search_is_in_the_address(at: str, window: Browser) -> None:
    window.go(f"{at}/topics")
    window.type("[data-is=search]", "pay" + ENTER)
    wait_until(lambda: window.run("return location.search") == "?search=pay", "the address has the filter")
    window.wait_for("payments")
    assert "orders" not in window.text()


@in_browser
def test_the_tail_shows_what_is_written_and_waits_while_it_is_paused(
    at: str, broker: EmbeddedBroker, window: Browser
) -> None:
    broker.bus.create_topic("news", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    window.go(f"{at}/topics/news/live")
    window.wait_for("0 came, 0 dropped")

    def write_until_seen() -> bool:  # the tail begins at the end, at a moment that nobody sees
        producer.produce("news", b"breaking")
        producer.flush()
        return "breaking" in window.text()

    wait_until(write_until_seen, "what is written is shown")
    window.click("[data-is=pause]")
    window.wait_for("paused")
    producer.produce("news", b"while-paused")
    producer.flush()
    window.wait_for(" wait, 0 dropped")
    assert "while-paused" not in window.text()
    window.click("[data-is=pause]")
    window.wait_for("while-paused")


@in_browser
def test_offsets_of_a_group_are_reset_after_a_preview(at: str, broker: EmbeddedBroker, window: Browser) -> None:
    window.go(f"{at}/group?name=analytics")
    window.click("[data-is=reset]")
    window.wait_for("The earliest record")
    assert window.run("return document.querySelector('[data-is=apply]').disabled") is True
    window.click("[data-is=preview]")
    wait_until(lambda: not window.run("return document.querySelector('[data-is=apply]').disabled"), "it is previewed")
    window.click("[data-is=apply]")
    window.wait_for("The offsets are set")
    group = httpx.get(f"{broker.http}/api/v1/groups/analytics", trust_env=False).json()
    assert {each["committed"] for each in group["offsets"]} == {0}


@in_browser
def test_light_dark_and_the_zone_are_kept(at: str, window: Browser) -> None:
    window.go(f"{at}/topics")
    window.run("document.cookie = 'barnabas_look=dark;path=/'; document.cookie = 'barnabas_time=local;path=/'")
    window.go(f"{at}/topics")
    window.wait_for("Local")
    wait_until(lambda: window.run("return document.body.classList.contains('body--dark')"), "it is dark")
    window.run("document.cookie = 'barnabas_look=light;path=/'; document.cookie = 'barnabas_time=utc;path=/'")


@in_browser
def test_pages_fit_a_phone(at: str, window: Browser) -> None:
    window.resize(390, 844)
    try:
        for path, seen in PAGES[3:10:2]:
            window.go(at + path)
            if seen != "Waiting for messages":
                window.wait_for(seen)
            wide = window.run("return document.documentElement.scrollWidth")
            assert wide <= 390, f"{path} is {wide} wide"
    finally:
        window.resize(1280, 900)


@in_browser
def test_what_is_not_allowed_is_not_offered(window: Browser) -> None:
    with EmbeddedBroker({**SETTINGS, "http.write.enable": "false"}) as broker, console(broker.http) as at:
        broker.bus.create_topic("fixed", partitions=1)
        wait_for_api(broker)
        window.go(f"{at}/topics")
        window.wait_for("fixed")
        assert "Create a topic" not in window.text()
        window.go(f"{at}/topics/fixed")
        window.wait_for("End offset")
        for offered in ("Write a message", "Delete"):
            assert offered not in window.text().splitlines()


@in_browser
def test_a_node_that_goes_away_and_comes_back(window: Browser, tmp_path: Path) -> None:
    settings = {**SETTINGS, "http.listener": f"127.0.0.1:{free_port()}"}
    broker = EmbeddedBroker(settings, data_dir=str(tmp_path)).start()
    with console(broker.http) as at:
        wait_for_api(broker)
        window.go(at)
        window.wait_for("Under-replicated")
        broker.stop()
        try:
            window.wait_for("does not answer")
            window.go(f"{at}/topics")
            window.wait_for("does not answer")
        finally:
            broker = EmbeddedBroker(settings, data_dir=str(tmp_path)).start()
        try:
            window.wait_for("There are no topics yet")
            wait_until(lambda: "does not answer" not in window.text(), "the banner is gone")
        finally:
            broker.stop()


@in_browser
def test_who_has_to_log_in_is_asked_and_comes_back_to_the_page(window: Browser) -> None:
    with FakeApi() as api, console(api.url) as at:
        window.go(f"{at}/transactions")
        window.wait_for("With a user that the Kafka port")
        window.type("[autocomplete=username]", "ada")
        window.type("[autocomplete=current-password]", "wrong")
        window.click("main button, .nicegui-content button")
        window.wait_for("the password is wrong")
        window.run("document.querySelector('[autocomplete=current-password]').select()")
        window.type("[autocomplete=current-password]", PASSWORD + ENTER)
        window.wait_for("No transaction is open")
        assert window.run("return location.pathname") == "/transactions"
        assert api.token not in str(window.run("return document.cookie + JSON.stringify({...localStorage})"))
