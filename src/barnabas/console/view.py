"""What every page has: the frame around it, who looks at it, its way to the API, and what it does when the API is away.

A page is built with what the API answers now, and may refresh itself by one timer. If the node does not answer, a
banner says so, and the page goes on when it does.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import app, ui

from barnabas.console import models
from barnabas.console.api import Api, ApiError, NeedsLogin, Params, Unavailable
from barnabas.console.paging import address
from barnabas.console.sessions import Sessions
from barnabas.console.showing import Times

T = TypeVar("T")
REFRESH_S: Final = 5.0
RESPONSE_S: Final = 30.0
LINKS: Final = (
    ("/", "Overview", "dashboard"),
    ("/topics", "Topics", "topic"),
    ("/groups", "Groups", "group_work"),
    ("/nodes", "Nodes", "dns"),
    ("/transactions", "Transactions", "swap_horiz"),
    ("/access", "Access", "admin_panel_settings"),
)
GUARDED: Final = {"/access": ("describe", "describe_configs")}
"""Links that are there only for those who may do one of these to the cluster."""
# All of it is constant: nothing of what the API answers goes into it.
HEAD: Final = """
<script>
document.cookie = 'barnabas_zone=' + encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)
  + ';path=/;SameSite=Strict;max-age=31536000';
</script>
<style>
:root { --line: #e2e8f0; --soft: #64748b; --ground: #f8fafc; --card: #fff; }
.body--dark { --line: #334155; --soft: #94a3b8; --ground: #0f172a; --card: #1e293b; }
body { background: var(--ground); font-family: system-ui, Roboto, sans-serif; }
.nicegui-content { padding: 1.25rem; max-width: 1280px; margin: 0 auto; gap: 1.25rem; }
.q-header { background: var(--card) !important; color: inherit; border-bottom: 1px solid var(--line); }
.body--light .q-header { color: #0f172a; }
.q-drawer { background: var(--card) !important; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem; }
.q-table__card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; box-shadow: none; }
.q-table th { color: var(--soft); font-weight: 600; }
.q-table td, .q-table th { border-color: var(--line) !important; }
.body--dark :is(.q-btn--outline, .q-btn--flat, .q-field, .q-toggle, .q-checkbox) {
  --q-primary: #5eead4; --q-negative: #f87171; }
.stretch { align-items: stretch; }
.soft { color: var(--soft); }
.mono { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: .82rem; }
.content { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 45vh; overflow: auto; width: 100%;
  background: var(--ground); border: 1px solid var(--line); border-radius: 6px; padding: .6rem; }
.number { font-size: 1.5rem; font-weight: 650; line-height: 1.15; }
.bad { color: #dc2626; } .body--dark .bad { color: #f87171; }
.warn { color: #b45309; } .body--dark .warn { color: #fbbf24; }
.good { color: #15803d; } .body--dark .good { color: #4ade80; }
.banner { background: #b91c1c; color: #fff; width: 100%; border-radius: 8px; padding: .6rem 1rem; }
a.go { color: #0f766e; font-weight: 550; text-decoration: none; } .body--dark a.go { color: #5eead4; }
.act { color: #b91c1c; cursor: pointer; } .body--dark .act { color: #f87171; }
a.go:hover, .act:hover { text-decoration: underline; }
.nav { display: flex; gap: .75rem; align-items: center; padding: .55rem .9rem; border-radius: 8px; color: inherit;
  text-decoration: none; width: 100%; }
.nav:hover, .nav.here { background: rgba(20, 184, 166, .16); }
.q-table td { max-width: 30rem; overflow: hidden; text-overflow: ellipsis; }
</style>
"""


@dataclass(slots=True)
class Console:
    """What all pages share."""

    api: Api
    sessions: Sessions
    root_path: str = ""
    """The path below which a proxy serves the console."""


_console: Console | None = None


def use(console: Console) -> None:
    """Have all pages work with this."""
    global _console  # noqa: PLW0603 - NiceGUI keeps its pages by process, so what they share is by process, too
    _console = console


def console() -> Console:
    """What all pages share."""
    assert _console is not None, "the console is not set up"
    return _console


def session_id() -> str:
    """The session of the browser that asks."""
    return str(app.storage.browser["id"])


class View:
    """A page, for one who looks at it."""

    def __init__(self, request: Request, token: str | None) -> None:
        self.request = request
        self.token = token
        self.api = console().api
        self.cluster: models.Cluster | None = None
        self.times = Times.of(
            is_local=request.cookies.get("barnabas_time") == "local",
            zone_name=_unquoted(request.cookies.get("barnabas_zone", "")),
        )
        self._guarded: dict[str, ui.link] = {}
        self._banner: ui.row | None = None
        self._why: ui.label | None = None

    async def get(self, path: str, answer: type[T], params: Params | None = None) -> T:
        """What the API answers."""
        return await self.api.call("GET", path, answer, token=self.token, params=params)

    async def shared(self, path: str, answer: type[T]) -> T:
        """What the API answered a moment ago, to anybody like this one."""
        return await self.api.shared(path, answer, token=self.token)

    async def history(self, path: str) -> models.Series:
        """What the nodes remember of something."""
        return await self.api.history(path, token=self.token)

    def whose(self, cluster: models.Cluster) -> str:
        """Of which nodes the charts are, for their headings."""
        count = len(self.api.urls)
        return "" if count >= cluster.counts.nodes else " of this node" if count == 1 else f" of {count} nodes"

    async def send(self, method: str, path: str, answer: type[T], body: Any = None, params: Params | None = None) -> T:
        """Have the API change something, or say what would change."""
        return await self.api.call(method, path, answer, token=self.token, body=body, params=params)

    def may(self, operation: str, allowed: list[str]) -> bool:
        """Whether it is to be offered: it may be done, and the node takes changes."""
        return self.cluster is not None and self.cluster.is_writable and operation in allowed

    def parameter(self, name: str) -> str:
        """A parameter of the page's address."""
        return self.request.query_params.get(name, "")

    def now_ms(self) -> float:
        """The time, to say how long ago something was."""
        return time.time() * 1000

    # The frame

    def frame(self, title: str) -> None:
        """The header, the links, and room for a banner."""
        ui.colors(primary="#0f766e", secondary="#475569", accent="#0891b2")
        ui.add_head_html(HEAD)
        ui.page_title(f"{title} · Barnabas" if title else "Barnabas")
        mode = self.request.cookies.get("barnabas_look", "auto")
        ui.dark_mode({"dark": True, "light": False}.get(mode))
        with (
            ui.left_drawer(bordered=True, value=False)
            .props("show-if-above width=220 breakpoint=900")
            .classes("q-pa-sm") as drawer
        ):
            for path, name, icon in LINKS:
                here = self.request.url.path
                is_here = here == path or (path != "/" and here.startswith(path.rstrip("s")))
                link = ui.link(target=path).classes("nav here" if is_here else "nav")
                if path in GUARDED:
                    link.set_visibility(False)
                    self._guarded[path] = link
                with link:
                    ui.icon(icon, size="20px")
                    ui.label(name)
        with ui.header().classes("items-center q-px-md q-py-sm no-wrap"):
            ui.button(icon="menu", on_click=drawer.toggle).props('flat dense round color=inherit aria-label="Menu"')
            with ui.link(target="/").style("color: inherit; text-decoration: none"):
                ui.label("Barnabas").style("font-weight: 700; font-size: 1.1rem")
            ui.space()
            self._switches(mode)
        self._banner = ui.row().classes("banner items-center no-wrap")
        self._banner.set_visibility(False)
        with self._banner:
            ui.icon("cloud_off", size="22px")
            self._why = ui.label("")

    def offer(self) -> None:
        """Show the links to what this one may look at, once it is known who it is."""
        allowed = () if self.cluster is None else self.cluster.allowed
        for path, link in self._guarded.items():
            link.set_visibility(any(each in allowed for each in GUARDED[path]))

    def _switches(self, mode: str) -> None:
        zone = "Local" if self.times.is_local else "UTC"
        other = "utc" if self.times.is_local else "local"
        button = ui.button(zone, icon="schedule", on_click=lambda: _set_cookie("barnabas_time", other))
        button.props("flat dense no-caps color=inherit").tooltip("Times in UTC or in the browser's zone")
        following = {"auto": "dark", "dark": "light"}.get(mode, "auto")
        icon = {"dark": "dark_mode", "light": "light_mode"}.get(mode, "brightness_auto")
        look = ui.button(icon=icon, on_click=lambda: _set_cookie("barnabas_look", following))
        look.props('flat dense round color=inherit aria-label="Look"').tooltip(f"Look: {mode}")
        if self.token is not None:
            leave = ui.button(icon="logout", on_click=self._log_out)
            leave.props('flat dense round color=inherit aria-label="Log out"').tooltip("Log out")

    def _log_out(self) -> None:
        console().sessions.log_out(session_id())
        ui.navigate.to("/login")

    # When the API is away, or refuses

    def say_away(self, why: str) -> None:
        """Show the banner."""
        if self._banner is not None and self._why is not None:
            self._why.set_text(f"{why}. This page goes on when it does.")
            self._banner.set_visibility(True)

    def say_back(self) -> None:
        """Hide the banner."""
        if self._banner is not None:
            self._banner.set_visibility(False)

    def every(self, refresh: Callable[[], Awaitable[None]], *, seconds: float = REFRESH_S) -> None:
        """Refresh the page now and then; the one timer that it has."""

        async def look() -> None:
            try:
                await refresh()
            except Unavailable as error:
                self.say_away(str(error))
            except NeedsLogin:
                ui.navigate.to(self.login_address())
            except ApiError as error:
                self.say_away(str(error))
            else:
                self.say_back()

        ui.timer(seconds, look, immediate=False)

    async def attempt(self, doing: Awaitable[T]) -> T | None:
        """What somebody asked for by a click; a refusal is shown, and the page stays."""
        try:
            return await doing
        except NeedsLogin:
            ui.navigate.to(self.login_address())
        except ApiError as error:
            ui.notify(str(error), type="negative", multi_line=True, timeout=10_000, close_button="Close")
        return None

    def login_address(self) -> str:
        """Where to log in, and to come back from."""
        query = self.request.url.query
        return address("/login", {"to": self.request.url.path + (f"?{query}" if query else "")})


def _unquoted(text: str) -> str:
    return text.replace("%2F", "/").replace("%2f", "/")


def _set_cookie(name: str, value: str) -> None:
    """A preference. Both are constants of this module."""
    ui.run_javascript(f"document.cookie = '{name}={value};path=/;SameSite=Strict;max-age=31536000'; location.reload()")


Build = Callable[[View], Awaitable[None]]


def page(path: str, title: str, build: Build) -> None:
    """Make a page known: framed, with what the API says of the cluster, or with why there is nothing to be seen."""

    async def shown(request: Request) -> RedirectResponse | None:
        view = View(request, console().sessions.token(session_id()))
        view.frame(str(request.path_params.get("name", title)))
        try:
            view.cluster = await view.shared("/cluster", models.Cluster)
            view.offer()
            await build(view)
        except NeedsLogin:
            return RedirectResponse(view.login_address(), status_code=303)
        except Unavailable as error:
            view.say_away(str(error))
            ui.timer(3.0, lambda: _come_back(view))
        except ApiError as error:
            with ui.column().classes("card w-full"):
                ui.label("This cannot be shown").classes("bad").style("font-weight: 650")
                ui.label(str(error))
                ui.link("Back to the overview", "/").classes("go")
        return None

    ui.page(path, response_timeout=RESPONSE_S, reconnect_timeout=30.0)(shown)


async def _come_back(view: View) -> None:
    """Load the page again once the node answers."""
    try:
        await view.shared("/cluster", models.Cluster)
    except NeedsLogin:
        pass  # it answers
    except ApiError:
        return
    ui.navigate.reload()
