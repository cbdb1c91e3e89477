"""Users who log in by SCRAM or PLAIN: listed, made, given another password, deleted.

A password comes here over TLS, or does not leave the machine; from here on it is salted.
"""

from typing import Any, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.scram import MAX_ITERATIONS, MIN_ITERATIONS, NUMBERS, salted_password
from barnabas.core.errors import InvalidRequest, ResourceNotFound
from barnabas.edge.http import access_models, models
from barnabas.edge.http.calling import Call, Param, Route
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.routes.topics import VALIDATE
from barnabas.services.session import Session
from barnabas.wire.apis import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from barnabas.wire.writing import Values

SALT_BYTES: Final = 24
LIMIT: Final = 500
MAX_LIMIT: Final = 5000
SEARCHING: Final = (
    Param("search", "string", "Only those with this in one of their names."),
    Param("limit", "integer", f"How many; {LIMIT} by default, {MAX_LIMIT} at most."),
)
_NAMES: Final = {number: name for name, number in NUMBERS.items()}


async def list_users(context: Context, call: Call) -> access_models.Users:
    """All users, by name, or those whose name has a text in it."""
    search = call.text("search").lower()
    found = [each for each in await _users(context, call.session) if search in each.name.lower()]
    limit = call.number("limit", LIMIT, at_least=1, at_most=MAX_LIMIT)
    return access_models.Users(users=found[:limit], total=len(found))


async def _users(context: Context, session: Session) -> list[access_models.User]:
    answer = await context.calls.call(session, DESCRIBE_USER_SCRAM_CREDENTIALS.key, {"users": None})
    check(answer.error_code, answer.error_message)
    return [
        access_models.User(
            name=each.user,
            mechanisms={
                _NAMES.get(int(info.mechanism), str(int(info.mechanism))): int(info.iterations)
                for info in each.credential_infos
            },
        )
        for each in answer.results
    ]


async def make_user(context: Context, call: Call) -> models.Changed:
    """Make a user, or give one that exists another password."""
    new: access_models.NewUser = call.body
    context.check_writable(is_dry=new.validate_only)
    context.authorize(call.session, Operation.ALTER, CLUSTER)
    if not new.mechanisms:
        raise InvalidRequest("name a mechanism by which the user is to log in")
    if not MIN_ITERATIONS <= new.iterations <= MAX_ITERATIONS:
        raise InvalidRequest(f"iterations must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    exists = any(user == new.name for user, _ in context.broker.image.credentials)
    mechanisms = list(dict.fromkeys(new.mechanisms))
    if not new.validate_only:
        upsertions = [await _upsertion(context, new, mechanism) for mechanism in mechanisms]
        await _alter(context, call.session, {"deletions": [], "upsertions": upsertions})
    what = "another password" if exists else "a new user"
    return models.Changed(
        name=new.name, validate_only=new.validate_only, changes=[f"{what}, for {' and '.join(mechanisms)}"]
    )


async def _upsertion(context: Context, new: access_models.NewUser, mechanism: str) -> Values:
    salt = context.broker.dice.token_bytes(SALT_BYTES)
    salted = await context.broker.threads.compute.run(
        lambda: salted_password(mechanism, new.password, salt, new.iterations)
    )
    return {
        "name": new.name,
        "mechanism": NUMBERS[mechanism],
        "iterations": new.iterations,
        "salt": salt,
        "salted_password": salted,
    }


async def delete_user(context: Context, call: Call) -> models.Changed:
    """Delete a user. Connections that it has stay until they end."""
    name, is_dry = call.path["user"], call.flag("validate_only")
    context.check_writable(is_dry=is_dry)
    context.authorize(call.session, Operation.ALTER, CLUSTER)
    mechanisms = sorted(mechanism for user, mechanism in context.broker.image.credentials if user == name)
    if not mechanisms:
        raise ResourceNotFound(f"user '{name}' does not exist")
    if not is_dry:
        deletions: list[Any] = [{"name": name, "mechanism": mechanism} for mechanism in mechanisms]
        await _alter(context, call.session, {"deletions": deletions, "upsertions": []})
    return models.Changed(name=name, validate_only=is_dry, changes=["the user can log in no more"])


async def _alter(context: Context, session: Session, values: Values) -> None:
    answer = await context.calls.call(session, ALTER_USER_SCRAM_CREDENTIALS.key, values)
    for each in answer.results:
        check(each.error_code, each.error_message)


ROUTES = (
    Route("GET", "/users", list_users, "Users who log in by SCRAM or PLAIN.", access_models.Users, params=SEARCHING),
    Route(
        "POST",
        "/users",
        make_user,
        "Make a user, or give it another password.",
        models.Changed,
        takes=access_models.NewUser,
        status=201,
    ),
    Route("DELETE", "/users/{user}", delete_user, "Delete a user.", models.Changed, params=(VALIDATE,)),
)
