"""`barnabas acl`: add, list, remove."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.acl_options import AclOptions
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_group, complete_topic

if TYPE_CHECKING:
    from barnabas.client.acl_infos import AclInfo

app = typer.Typer(name="acl", help="Say who may do what: add, list and remove ACLs.", no_args_is_help=True)

AllowPrincipal: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-principal", metavar="User:NAME", help="Who may; User:* is everybody (repeatable)."),
]
DenyPrincipal: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--deny-principal", metavar="User:NAME", help="Who may not, whatever else allows it (repeatable)."),
]
AllowHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="ADDRESS", help="From where; default: anywhere (repeatable)."),
]
DenyHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--deny-host", metavar="ADDRESS", help="From where not; default: from nowhere (repeatable)."),
]
Operations: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--operation", help="Read, Write, Create, Delete, Alter, Describe, ..., All (repeatable)."),
]
Topics: TypeAlias = Annotated[
    list[str] | None, typer.Option("--topic", help="A topic; * is all (repeatable).", autocompletion=complete_topic)
]
Groups: TypeAlias = Annotated[
    list[str] | None, typer.Option("--group", help="A group; * is all (repeatable).", autocompletion=complete_group)
]
TransactionalIds: TypeAlias = Annotated[
    list[str] | None, typer.Option("--transactional-id", help="A transactional id (repeatable).")
]
UserPrincipals: TypeAlias = Annotated[
    list[str] | None, typer.Option("--user-principal", help="A user whose tokens are meant (repeatable).")
]
DelegationTokens: TypeAlias = Annotated[
    list[str] | None, typer.Option("--delegation-token", help="A delegation token (repeatable).")
]
IsCluster: TypeAlias = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")]
IsProducer: TypeAlias = Annotated[
    bool, typer.Option("--producer", help="What a producer needs for these topics, and transactional ids.")
]
IsConsumer: TypeAlias = Annotated[
    bool, typer.Option("--consumer", help="What a consumer needs for these topics and groups.")
]
IsIdempotent: TypeAlias = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: idempotent writes, for brokers before Kafka 3.0.")
]
PatternType: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal (default) or prefixed: names that begin so. To list and remove also any, and match: all ACLs "
        "that apply to a resource of the name.",
    ),
]


@app.command()
def add(  # noqa: PLR0913, PLR0917 - one for each option
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    user_principal: UserPrincipals = None,
    delegation_token: DelegationTokens = None,
    cluster: IsCluster = False,
    producer: IsProducer = False,
    consumer: IsConsumer = False,
    idempotent: IsIdempotent = False,
    resource_pattern_type: PatternType = None,
    as_json: AsJson = False,
) -> None:
    """Add ACLs, as in: acl add --allow-principal User:alice --consumer --topic orders --group billing."""
    options = AclOptions(
        allow_principals=allow_principal or (),
        deny_principals=deny_principal or (),
        allow_hosts=allow_host or (),
        deny_hosts=deny_host or (),
        operations=operation or (),
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        user_principals=user_principal or (),
        delegation_tokens=delegation_token or (),
        is_cluster=cluster,
        is_producer=producer,
        is_consumer=consumer,
        is_idempotent=idempotent,
        pattern_type=resource_pattern_type,
    )
    acls = options.new_acls()
    with connection.ask_bus(bootstrap) as bus:
        bus.acls.create(acls)
    _print(acls, as_json=as_json)


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="User:NAME", help="Only of this principal (repeatable).")
    ] = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    user_principal: UserPrincipals = None,
    delegation_token: DelegationTokens = None,
    cluster: IsCluster = False,
    resource_pattern_type: PatternType = None,
    as_json: AsJson = False,
) -> None:
    """List the ACLs of the resources that are named, or all."""
    options = AclOptions(
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        user_principals=user_principal or (),
        delegation_tokens=delegation_token or (),
        is_cluster=cluster,
        pattern_type=resource_pattern_type,
    )
    with connection.ask_bus(bootstrap) as bus:
        found = {acl: None for selection in options.selections() for acl in bus.acls.find(selection)}
    _print([acl for acl in found if not principal or acl.principal in principal], as_json=as_json)


@app.command()
def remove(  # noqa: PLR0913, PLR0917 - one for each option
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    user_principal: UserPrincipals = None,
    delegation_token: DelegationTokens = None,
    cluster: IsCluster = False,
    producer: IsProducer = False,
    consumer: IsConsumer = False,
    idempotent: IsIdempotent = False,
    resource_pattern_type: PatternType = None,
    all_: Annotated[bool, typer.Option("--all", help="All ACLs of the cluster.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the ACLs that the options of acl add made; without principals and operations, all of the resources."""
    options = AclOptions(
        allow_principals=allow_principal or (),
        deny_principals=deny_principal or (),
        allow_hosts=allow_host or (),
        deny_hosts=deny_host or (),
        operations=operation or (),
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        user_principals=user_principal or (),
        delegation_tokens=delegation_token or (),
        is_cluster=cluster,
        is_producer=producer,
        is_consumer=consumer,
        is_idempotent=idempotent,
        pattern_type=resource_pattern_type,
    )
    selections = options.selections()
    if options == AclOptions() and not all_:
        raise typer.BadParameter("say which ACLs: name a resource or a principal, or give --all")
    with connection.ask_bus(bootstrap) as bus:
        meant = {acl: None for selection in selections for acl in bus.acls.find(selection)}
        if meant:
            confirm(f"Remove {len(meant)} ACLs: {_some(list(meant))}?", yes=yes)
        _print(bus.acls.delete(selections) if meant else [], as_json=as_json)


def _some(acls: list["AclInfo"]) -> str:
    words = [f"{each.principal} {each.permission} {each.operation} on {each.resource_name}" for each in acls[:3]]
    return ", ".join(words) + (", ..." if len(acls) > len(words) else "")


def _print(acls: list["AclInfo"], *, as_json: bool) -> None:
    rows = [
        (a.principal, a.permission, a.operation, a.resource_type, a.resource_name, a.pattern_type, a.host) for a in acls
    ]
    columns = ("principal", "permission", "operation", "resource type", "resource", "pattern", "host")
    output.print_found(acls, columns, rows, as_json=as_json)
