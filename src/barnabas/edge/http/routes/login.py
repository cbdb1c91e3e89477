"""Logging in: credentials that the Kafka port knows, for a token that is valid for a while."""

from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.context import Context
from barnabas.edge.http.problems import HttpRefusal
from barnabas.edge.http.tokens import Credentials


async def log_in(context: Context, call: Call) -> models.LoggedIn:
    """Check credentials, and give a token."""
    if context.login is None:
        raise HttpRefusal(404, "nobody has to log in here: there is no authentication")
    principal = await context.login.check(call.body)
    token, until_ms = context.tokens.give(principal)
    return models.LoggedIn(token=token, until_ms=until_ms, principal=str(principal))


ROUTES = (
    Route(
        "POST",
        "/login",
        log_in,
        "Log in for a token, to be sent as Authorization: Bearer.",
        models.LoggedIn,
        takes=Credentials,
        is_open=True,
    ),
)
