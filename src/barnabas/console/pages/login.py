"""Logging in, where the API asks for it. The token stays in the memory of the console."""

from fastapi import Request
from nicegui import ui

from barnabas.console import models
from barnabas.console.api import ApiError
from barnabas.console.paging import own_page
from barnabas.console.view import RESPONSE_S, View, console, session_id


async def show(request: Request) -> None:
    """The page. What the API says of the cluster is not asked for: nobody is known yet."""
    view = View(request, None)
    view.frame("Log in")
    with ui.column().classes("card gap-3").style("width: min(400px, 100%); margin: 6vh auto 0"):
        ui.label("Log in").style("font-size: 1.3rem; font-weight: 650")
        ui.label(f"With a user that the Kafka port of {view.api.url} knows.").classes("soft")
        user = ui.input("User").classes("w-full").props("autofocus autocomplete=username")
        password = ui.input("Password", password=True).classes("w-full").props("autocomplete=current-password")
        oauth = ui.input("Or a token of OAuth", password=True).classes("w-full").props("autocomplete=off")
        refused = ui.label("").classes("bad")

        async def log_in() -> None:
            if oauth.value:
                body = {"oauth_token": oauth.value}
            else:
                body = {"username": user.value or "", "password": password.value or ""}
            try:
                found = await view.send("POST", "/login", models.LoggedIn, body)
            except ApiError as error:
                refused.set_text(str(error))
                return
            console().sessions.log_in(session_id(), found.token)
            ui.navigate.to(own_page(view.parameter("to")))

        password.on("keydown.enter", log_in)
        oauth.on("keydown.enter", log_in)
        ui.button("Log in", on_click=log_in).props("no-caps").classes("w-full")


def register() -> None:
    """Make it known."""
    ui.page("/login", response_timeout=RESPONSE_S)(show)
