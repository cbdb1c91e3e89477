"""ACLs: listed, created, deleted by what they say."""

from typing import Any, Final, NamedTuple, get_args

from barnabas.core.access.acls import ALL_OPERATIONS, ANY, Acl, PatternType, Permission
from barnabas.core.access.resources import CLUSTER, Operation, ResourceType
from barnabas.core.errors import InvalidRequest, SecurityDisabled
from barnabas.edge.http import access_models, models
from barnabas.edge.http.calling import Call, Param, Route
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.problems import bad
from barnabas.edge.http.routes.topics import VALIDATE
from barnabas.edge.http.routes.users import LIMIT, MAX_LIMIT, SEARCHING
from barnabas.services.session import Session
from barnabas.wire.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from barnabas.wire.writing import Values

NO_AUTHORIZER: Final = "ACLs are off: set authorizer.class.name=acl on every node"


class _Field(NamedTuple):
    doc: str
    numbers: dict[str, int]


_TYPES: Final = {each.name.lower(): int(each) for each in ResourceType}
_PATTERNS: Final = {name: int(PatternType[name.upper()]) for name in get_args(access_models.PatternType)}
_OPERATIONS: Final = {"all": ALL_OPERATIONS, **{each.name.lower(): int(each) for each in Operation}}
_PERMISSIONS: Final = {each.name.lower(): int(each) for each in Permission}
_NUMBERED: Final = {
    "resource_type": _Field("Of resources of this type.", _TYPES),
    "pattern_type": _Field("With this kind of name.", _PATTERNS),
    "operation": _Field("Of this operation.", _OPERATIONS),
    "permission": _Field("That allow, or that deny.", _PERMISSIONS),
}
_NAMED: Final = {
    "resource_name": "Of the resource of this name.",
    "principal": "Of this principal, as in User:ada.",
    "host": "Of this host.",
}
FILTERS: Final = tuple(
    Param(name, "string", doc)
    for name, doc in {**_NAMED, **{name: each.doc for name, each in _NUMBERED.items()}}.items()
)


async def list_acls(context: Context, call: Call) -> access_models.Acls:
    """The ACLs that are asked for, in the order of their resources."""
    search = call.text("search").lower()
    found = [
        each
        for each in await _find(context, call.session, _wanted(call))
        if search in each.principal.lower() or search in each.resource_name.lower()
    ]
    limit = call.number("limit", LIMIT, at_least=1, at_most=MAX_LIMIT)
    return access_models.Acls(acls=found[:limit], total=len(found))


def _wanted(call: Call) -> Values:
    """The filter that the parameters are."""
    numbers = {}
    for name, field in _NUMBERED.items():
        text = call.text(name)
        if text and text not in field.numbers:
            raise bad(f"{name} is one of {', '.join(field.numbers)}")
        numbers[name] = field.numbers[text] if text else ANY
    names = {name: call.text(name) if name in call.query else None for name in _NAMED}
    return {
        "resource_type_filter": numbers["resource_type"],
        "resource_name_filter": names["resource_name"],
        "pattern_type_filter": numbers["pattern_type"],
        "principal_filter": names["principal"],
        "host_filter": names["host"],
        "operation": numbers["operation"],
        "permission_type": numbers["permission"],
    }


async def _find(context: Context, session: Session, wanted: Values) -> list[access_models.Acl]:
    answer = await context.calls.call(session, DESCRIBE_ACLS.key, wanted)
    _check(answer)
    return [_told(resource, entry) for resource in answer.resources for entry in resource.acls]


def _check(answer: Any) -> None:
    if int(answer.error_code) == SecurityDisabled.kafka_code:
        raise SecurityDisabled(NO_AUTHORIZER)
    check(answer.error_code, answer.error_message)


def _told(resource: Any, entry: Any) -> access_models.Acl:
    return access_models.Acl(
        resource_type=_name(_TYPES, int(resource.resource_type)),
        resource_name=resource.resource_name,
        pattern_type=_name(_PATTERNS, int(resource.pattern_type)),
        principal=entry.principal,
        host=entry.host,
        operation=_name(_OPERATIONS, int(entry.operation)),
        permission=_name(_PERMISSIONS, int(entry.permission_type)),
    )


def _name(numbers: dict[str, int], number: int) -> str:
    return next((name for name, each in numbers.items() if each == number), str(number))


async def create_acl(context: Context, call: Call) -> models.Changed:
    """Create an ACL; one that exists stays as it is."""
    new: access_models.NewAcl = call.body
    context.check_writable(is_dry=new.validate_only)
    context.authorize(call.session, Operation.ALTER, CLUSTER)
    if context.broker.acls is None:
        raise SecurityDisabled(NO_AUTHORIZER)
    acl = Acl(
        _TYPES[new.resource_type],
        new.resource_name,
        _PATTERNS[new.pattern_type],
        new.principal,
        new.host,
        _OPERATIONS[new.operation],
        _PERMISSIONS[new.permission],
    )
    acl.check()
    if not new.validate_only:
        creation: Values = {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        answer = await context.calls.call(call.session, CREATE_ACLS.key, {"creations": [creation]})
        for each in answer.results:
            _check(each)
    return models.Changed(name=new.principal, validate_only=new.validate_only, changes=[_words(new)])


def _words(acl: access_models.NewAcl | access_models.Acl) -> str:
    """An ACL in a sentence."""
    whose = "that begin with" if acl.pattern_type == "prefixed" else "named"
    where = "" if acl.host == "*" else f" from {acl.host}"
    verb = "may" if acl.permission == "allow" else "may not"
    return f"{acl.principal} {verb} {acl.operation}{where}: {acl.resource_type}s {whose} '{acl.resource_name}'"


async def delete_acls(context: Context, call: Call) -> models.Changed:
    """Delete the ACLs that the parameters select; at least one of them must be named."""
    is_dry = call.flag("validate_only")
    context.check_writable(is_dry=is_dry)
    if not any(name in call.query for name in (*_NAMED, *_NUMBERED)):
        raise InvalidRequest("say which ACLs are to be deleted, as in principal=User:ada")
    wanted = _wanted(call)
    context.authorize(call.session, Operation.ALTER, CLUSTER)
    if is_dry:
        gone = await _find(context, call.session, wanted)
    else:
        answer = await context.calls.call(call.session, DELETE_ACLS.key, {"filters": [wanted]})
        (result,) = answer.filter_results
        _check(result)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
        gone = [_told(each, each) for each in result.matching_acls]
    return models.Changed(name=call.text("principal"), validate_only=is_dry, changes=[_words(each) for each in gone])


ROUTES = (
    Route("GET", "/acls", list_acls, "ACLs.", access_models.Acls, params=(*FILTERS, *SEARCHING)),
    Route("POST", "/acls", create_acl, "Create an ACL.", models.Changed, takes=access_models.NewAcl, status=201),
    Route(
        "DELETE",
        "/acls",
        delete_acls,
        "Delete the ACLs that the parameters select.",
        models.Changed,
        params=(*FILTERS, VALIDATE),
    ),
)
