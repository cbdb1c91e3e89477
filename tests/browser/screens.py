"""Pictures of the console: ``python -m tests.browser.screens docs/images`` takes those that the documentation shows,
``--all`` every page in both looks, to be looked at.
"""

import sys
import time
from pathlib import Path

from barnabas import EmbeddedBroker
from tests.browser.driver import Browser, browser, wait_until
from tests.browser.showcase import SETTINGS, console, fill, fill_oddly, wait_for_api

PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "messages": "/topics/orders/messages",
    "filtered": "/topics/orders/messages?filter=value.sum:gt:250&from=oldest",
    "live": "/topics/orders/live",
    "groups": "/groups",
    "group": "/group?name=billing",
    "nodes": "/nodes",
    "transactions": "/transactions",
    "users": "/access",
    "acls": "/access/acls",
    "quotas": "/access/quotas",
    "no-topics": "/topics?search=nothing",
}
SHOWN = ("console-overview-light.png", "console-messages-dark.png", "console-message-light.png")
HISTORY_S = 31
"""Three steps of the node's history: a chart with a line in it."""


def take(window: Browser, at: str, directory: Path, look: str) -> None:
    """All pages in one look."""
    window.go(f"{at}/nodes")
    window.run(f"document.cookie = 'barnabas_look={look};path=/'")
    for name, path in PAGES.items():
        window.go(at + path)
        window.wait_for("Barnabas")
        wait_until(lambda: window.run("return document.readyState === 'complete'"), "the page is loaded")
        time.sleep(1.2)  # for charts to be drawn, and for pictures alone
        window.screenshot(directory / f"console-{name}-{look}.png")
    window.go(f"{at}/topics/orders/messages")
    window.click("tbody tr")
    window.wait_for("Copy as command")
    time.sleep(0.8)
    window.screenshot(directory / f"console-message-{look}.png")


def main(directory: Path, *, is_all: bool) -> None:
    """Take them."""
    directory.mkdir(parents=True, exist_ok=True)
    with EmbeddedBroker(SETTINGS) as broker, console(broker.http) as at, browser() as window:
        wait_for_api(broker)
        open_one = fill(broker)
        fill_oddly(broker)
        time.sleep(HISTORY_S)
        take(window, at, directory, "light")
        take(window, at, directory, "dark")
        window.resize(390, 844)
        window.go(f"{at}/topics")
        time.sleep(1.5)
        window.screenshot(directory / "console-phone-dark.png")
        del open_one  # its transaction was open all the time
    for path in directory.glob("console-*.png"):
        if not is_all and path.name not in SHOWN:
            path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_all="--all" in sys.argv)
