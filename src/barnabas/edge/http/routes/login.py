"""Logging in: credentials that the Kafka port knows, for a token that is valid for a while."""

from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.context import Context
from barnabas.edge.http.problems import HttpRefusal
from barnabas.edge.http.tokens import Credentials, Login
from barnabas.services.authentication import Identity
from barnabas.services.session import Session


async def log_in(context: Context, call: Call) -> models.LoggedIn:
    """Check credentials, and give a token."""
    if context.login is None:
        raise HttpRefusal(404, "nobody has to log in here: there is no authentication")
    identity = await _identify(context.login, call.body, call.session)
    token, until_ms = context.tokens.give(identity)
    return models.LoggedIn(token=token, until_ms=until_ms, principal=str(identity.principal))


async def _identify(login: Login, given: Credentials, session: Session) -> Identity:
    match given:
        case Credentials(username=str(user), password=str(password), oauth_token=None):
            return await login.by_password(user, password, peer=session.peer)
        case Credentials(username=None, password=None, oauth_token=str(token)):
            return await login.by_token(token, peer=session.peer)
    raise HttpRefusal(400, "give username and password, or oauth_token")


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
