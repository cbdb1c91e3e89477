"""Runs the console as this process, until SIGTERM or SIGINT."""

import asyncio
import secrets
import sys
from collections.abc import Sequence
from typing import Any, Final

import httpx
from nicegui import app, core, ui

from barnabas.console import pages, view
from barnabas.console.api import Api
from barnabas.console.guarding import Guard
from barnabas.console.sessions import Sessions

POLL_S: Final = 0.05


def run(*, api_urls: Sequence[str], host: str, port: int, names: Sequence[str] = (), root_path: str = "") -> None:
    """Serve the pages, to browsers that know them below `root_path`."""
    api = Api(api_urls)
    view.use(view.Console(api, Sessions(), root_path))
    pages.register()
    guard: Any = Guard  # Starlette's type for it asks for more than it uses
    app.add_middleware(guard, names=names, root_path=root_path)
    core.sio.eio.cors_allowed_origins = []  # it says nothing to other origins: the guard has refused them before

    shown = f"[{host}]" if ":" in host else host

    async def say_ready() -> None:
        await _wait_for_page(_local(host), port)
        print(f"the console is ready on http://{shown}:{port}{root_path} (API at {', '.join(api.urls)})", flush=True)

    waiting: list[asyncio.Task[None]] = []
    app.on_startup(lambda: waiting.append(asyncio.get_running_loop().create_task(say_ready())))
    app.on_shutdown(lambda: [each.cancel() for each in waiting])
    app.on_shutdown(api.close)
    ui.run(
        host=host,
        port=port,
        title="Barnabas",
        favicon="📜",
        dark=None,
        reload=False,
        show=False,
        show_welcome_message=False,
        reconnect_timeout=30.0,
        storage_secret=secrets.token_urlsafe(32),  # log-ins end with the process, and so may its cookies
        session_middleware_kwargs={"same_site": "strict"},
        binding_refresh_interval=0.5,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    sys.stdout.flush()


def _local(host: str) -> str:
    """The address by which this machine reaches a listener."""
    found = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{found}]" if ":" in found else found


async def _wait_for_page(host: str, port: int) -> None:
    """Return when a page is answered: the server listens only after the application has started."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        while True:
            try:
                await client.get(f"http://{host}:{port}/")
            except httpx.TransportError:
                await asyncio.sleep(POLL_S)
            else:
                return
