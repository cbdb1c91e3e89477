"""Quotas of users, client ids and addresses: listed, set, removed."""

from typing import Any

from barnabas.core.errors import InvalidRequest
from barnabas.edge.http import access_models, models
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.routes.users import LIMIT, MAX_LIMIT, SEARCHING
from barnabas.wire.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS


async def list_quotas(context: Context, call: Call) -> access_models.Quotas:
    """All quotas, or those of entities that have a text in one of their names."""
    search = call.text("search").lower()
    answer = await context.calls.call(call.session, DESCRIBE_CLIENT_QUOTAS.key, {"components": [], "strict": False})
    check(answer.error_code, answer.error_message)
    found = [
        access_models.Quota(
            entity={each.entity_type: each.entity_name for each in entry.entity},
            quotas={each.key: float(each.value) for each in entry.values},
        )
        for entry in answer.entries or ()
        if any(search in (each.entity_name or "").lower() for each in entry.entity)
    ]
    limit = call.number("limit", LIMIT, at_least=1, at_most=MAX_LIMIT)
    return access_models.Quotas(quotas=found[:limit], total=len(found))


async def alter_quotas(context: Context, call: Call) -> models.Changed:
    """Set quotas of an entity, and remove those that are null; its others stay."""
    wanted: access_models.AlterQuotas = call.body
    context.check_writable(is_dry=wanted.validate_only)
    if not wanted.entity or not wanted.quotas:
        raise InvalidRequest("name an entity, as in {'user': 'ada'}, and quotas, as in {'producer_byte_rate': 1000000}")
    ops: list[Any] = [
        {"key": name, "value": 0.0 if value is None else value, "remove": value is None}
        for name, value in wanted.quotas.items()
    ]
    entity: list[Any] = [{"entity_type": kind, "entity_name": name} for kind, name in wanted.entity.items()]
    entry: Any = {"entity": entity, "ops": ops}
    answer = await context.calls.call(
        call.session, ALTER_CLIENT_QUOTAS.key, {"entries": [entry], "validate_only": wanted.validate_only}
    )
    for each in answer.entries:
        check(each.error_code, each.error_message)
    changes = [f"{name} removed" if value is None else f"{name}={value:.15g}" for name, value in wanted.quotas.items()]
    name = ", ".join(f"{kind} {name or '(default)'}" for kind, name in wanted.entity.items())
    return models.Changed(name=name, validate_only=wanted.validate_only, changes=changes)


ROUTES = (
    Route("GET", "/quotas", list_quotas, "Quotas.", access_models.Quotas, params=SEARCHING),
    Route("POST", "/quotas", alter_quotas, "Set and remove quotas.", models.Changed, takes=access_models.AlterQuotas),
)
