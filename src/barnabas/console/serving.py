"""Runs the console as this process, until SIGTERM or SIGINT."""

import secrets
import sys
from collections.abc import Sequence
from typing import Any

from nicegui import app, core, ui

from barnabas.console import pages, view
from barnabas.console.api import Api
from barnabas.console.guarding import Guard
from barnabas.console.sessions import Sessions


def run(*, api_url: str, host: str, port: int, names: Sequence[str] = ()) -> None:
    """Serve the pages."""
    api = Api(api_url)
    view.use(view.Console(api, Sessions()))
    pages.register()
    guard: Any = Guard  # Starlette's type for it asks for more than it uses
    app.add_middleware(guard, names=names)
    core.sio.eio.cors_allowed_origins = []  # it says nothing to other origins: the guard has refused them before

    def say_ready() -> None:
        print(f"the console is ready on http://{host}:{port} (API at {api.url})", flush=True)

    app.on_startup(say_ready)
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
