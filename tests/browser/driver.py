"""A browser, driven over WebDriver's own protocol: Debian's chromium and chromedriver, with nothing between."""

import base64
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
WAIT_S: Final = 30.0
CHROMIUM: Final = shutil.which("chromium")
DRIVER: Final = shutil.which("chromedriver")
MISSING: Final = "there is no chromium with chromedriver here: apt-get install chromium chromium-driver"
ENTER: Final = "\ue007"


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(is_so: Callable[[], Any], what: str, *, seconds: float = WAIT_S) -> Any:
    """What the function answers once it is true; fails if it does not become so."""
    until = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"it did not happen: {what}")
        time.sleep(0.05)


class Browser:
    """One window."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = session

    def command(self, method: str, path: str, **values: Any) -> Any:
        """A command of WebDriver."""
        response = self._client.request(
            method, f"/session/{self._session}{path}", json=values if method == "POST" else None
        )
        answer = response.json()["value"]
        if response.status_code >= 400:
            raise AssertionError(f"{path}: {answer['error']}: {answer['message'].splitlines()[0]}")
        return answer

    def go(self, url: str) -> None:
        """Load a page."""
        self.command("POST", "/url", url=url)

    def run(self, script: str, *args: Any) -> Any:
        """What a script in the page returns."""
        return self.command("POST", "/execute/sync", script=script, args=list(args))

    def text(self) -> str:
        """The text that can be seen."""
        return str(self.run("return document.body.innerText"))

    def wait_for(self, text: str) -> None:
        """Wait until a text can be seen."""
        wait_until(lambda: text in self.text(), f"'{text}' is seen in {self.text()[:2000]!r}")

    def find(self, css: str) -> str:
        """The id of an element, once it can be seen."""
        script = "return [...document.querySelectorAll(arguments[0])].find(e => e.offsetParent !== null) || null"
        found = wait_until(lambda: self.run(script, css), f"{css} is seen")
        return str(found[ELEMENT])

    def click(self, css: str) -> None:
        """Click on an element, once it stays where it is: a click goes to a place, which it may have left by then."""
        found = {ELEMENT: self.find(css)}
        place = "const box = arguments[0].getBoundingClientRect(); return [box.x, box.y, box.width, box.height]"
        seen: list[Any] = []

        def rests() -> bool:
            seen.append(self.run(place, found))
            return len(seen) > 1 and seen[-1] == seen[-2]

        wait_until(rests, f"{css} stays where it is")
        self.command("POST", f"/element/{found[ELEMENT]}/click")

    def click_text(self, text: str, *, css: str = "button") -> None:
        """Click on the last of the elements with this text: the one on top."""
        script = (
            "const all = [...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent !== null && "
            "e.innerText.split('\\n').some(line => line.trim() === arguments[1])); return all[all.length - 1] || null"
        )
        found = wait_until(lambda: self.run(script, css, text), f"{css} '{text}' is seen")
        self.run("arguments[0].click()", found)

    def type(self, css: str, text: str) -> None:
        """Type into a field."""
        self.command("POST", f"/element/{self.find(css)}/value", text=text)

    def resize(self, width: int, height: int) -> None:
        """Make the page so large, as a device of that size would."""
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("POST", "/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=values)

    def screenshot(self, path: Path) -> None:
        """A picture of the page."""
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    assert CHROMIUM is not None, MISSING
    assert DRIVER is not None, MISSING
    port = free_port()
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
                wait_until(lambda: _is_up(client), "chromedriver is up")
                options = {
                    "binary": CHROMIUM,
                    "args": [
                        "--headless=new",
                        "--no-sandbox",
                        "--disable-gpu",
                        "--disable-dev-shm-usage",
                        "--no-first-run",
                        "--disable-background-networking",
                        "--disable-component-update",
                        "--disable-sync",
                        "--window-size=1280,900",
                        f"--user-data-dir={profile}",
                    ],
                }
                body = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
                answer = client.post("/session", json=body).json()["value"]
                session = answer["sessionId"]
                try:
                    yield Browser(client, session)
                finally:
                    client.delete(f"/session/{session}")
        finally:
            process.terminate()
            process.wait(10)


def _is_up(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/status").json()["value"]["ready"])
    except httpx.HTTPError:
        return False
