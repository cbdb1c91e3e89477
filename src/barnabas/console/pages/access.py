"""Who may log in, what they may do and how much: users, ACLs and quotas, each on a page of its own."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import events, ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import ApiError, part
from barnabas.console.pages.topics import settings_of
from barnabas.console.paging import address
from barnabas.console.view import View, page

TABS: Final = (("/access", "Users"), ("/access/acls", "ACLs"), ("/access/quotas", "Quotas"))
DEFAULT: Final = "<default>"
RESOURCES: Final = ("topic", "group", "cluster", "transactional_id", "user")
OPERATIONS: Final = (
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "describe_configs",
    "alter_configs",
    "cluster_action",
    "idempotent_write",
    "all",
)
OFF: Final = "SECURITY_DISABLED"
CLUSTER_NAME: Final = "kafka-cluster"
Send = Callable[[bool], Awaitable[None]]


def _head(view: View, here: str, *, may_add: bool, add: str) -> ui.button | None:
    """The title, the way to the other pages, a filter, and the button to add one."""
    button = None
    with ui.row().classes("w-full items-center gap-3"):
        widgets.title("Access")
        for path, name in TABS:
            with ui.link(target=path).classes("nav here" if path == here else "nav").style("width: auto"):
                ui.label(name)
        ui.space()
        box = ui.input("Filter by name", value=view.parameter("search"))
        box.props("dense outlined clearable data-is=search")

        def go() -> None:
            ui.navigate.to(address(here, {"search": (box.value or "").strip()}))

        box.on("keydown.enter", go)
        box.on("clear", go)
        if may_add:
            button = ui.button(add, icon="add").props("no-caps data-is=add")
    return button


def _allowed(view: View) -> list[str]:
    return [] if view.cluster is None else view.cluster.allowed


def _count(shown: int, total: int) -> None:
    text = f"{showing.count(total)} in all" if shown == total else f"{showing.count(shown)} of {showing.count(total)}"
    ui.label(text).classes("soft")


def _buttons(dialog: ui.dialog, send: Send, name: str) -> None:
    with ui.row().classes("w-full justify-end"):
        ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
        ui.button("Preview", on_click=lambda: send(True)).props("outline no-caps data-is=preview")
        ui.button(name, on_click=lambda: send(False)).props("no-caps data-is=apply")


async def _changed(view: View, said: ui.label, body: dict[str, Any], path: str, *, is_dry: bool) -> None:
    """Send a change, or ask what it would do; what was done is seen on the page, which is loaded anew."""
    done = await view.attempt(view.send("POST", path, models.Changed, {**body, "validate_only": is_dry}))
    if done is None:
        return
    if is_dry:
        said.set_text(f"Would be done: {', '.join(done.changes)}.")
    else:
        ui.navigate.reload()


def _deleting(rows: list[dict[str, str]], table: ui.table, ask: Callable[[dict[str, str]], ui.dialog]) -> None:
    """Have a click on a row ask whether it is to be deleted."""
    by_id = {row["id"]: row for row in rows}

    def clicked(event: events.GenericEventArguments) -> None:
        found = by_id.get(str(event.args[1].get("id")))
        if found is not None:
            dialog = ask(found)
            dialog.on("hide", dialog.delete)
            dialog.open()

    table.on("rowClick", clicked, [[], ["id"], None])


async def _delete(view: View, path: str, params: dict[str, str] | None = None) -> None:
    if await view.attempt(view.send("DELETE", path, models.Changed, params=params)) is not None:
        ui.navigate.reload()


def _columns(named: list[tuple[str, str]], *, may_delete: bool) -> list[dict[str, Any]]:
    columns = [widgets.column(name, label) for name, label in named]
    return [*columns, widgets.column("do", "", is_right=True)] if may_delete else columns


# Users


async def show_users(view: View) -> None:
    """The page of users."""
    may_alter = view.may("alter", _allowed(view))
    add = _head(view, "/access", may_add=may_alter, add="Add a user")
    if add is not None:
        add.on_click(_user_dialog(view).open)
    found = await view.get("/users", models.Users, {"search": view.parameter("search")})
    if not found.users:
        widgets.empty(
            "person_off",
            "No user logs in with a password",
            "Add one here, or with this command:",
            command="barnabas user create ada",
        )
        return
    rows = [user_row(each) for each in found.users]
    columns = _columns([("name", "User"), ("mechanisms", "Logs in by")], may_delete=may_alter)
    table = widgets.table(columns, rows, key="id").props("data-is=users")
    _count(len(found.users), found.total)
    if may_alter:
        _deleting(
            rows,
            table,
            lambda row: widgets.confirm_by_name(
                "user",
                row["id"],
                "It can log in no more; connections that it has stay until they end.",
                lambda: _delete(view, f"/users/{part(row['id'])}"),
            ),
        )


def user_row(user: models.User) -> dict[str, str]:
    """A user as a row."""
    mechanisms = ", ".join(f"{name} ({count} iterations)" for name, count in sorted(user.mechanisms.items()))
    return {"id": user.name, "name": showing.visible(user.name), "mechanisms": mechanisms, **_DELETABLE}


def _user_dialog(view: View) -> ui.dialog:
    with ui.dialog() as dialog, ui.column().classes("card gap-2").style("width: min(460px, 92vw)"):
        ui.label("Add a user, or give one another password").style("font-size: 1.1rem; font-weight: 650")
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off data-is=user-name")
        password = ui.input("Password", password=True).classes("w-full")
        password.props("autocomplete=new-password data-is=user-password")
        said = ui.label("")

        async def send(is_dry: bool) -> None:
            body = {"name": (name.value or "").strip(), "password": password.value or ""}
            await _changed(view, said, body, "/users", is_dry=is_dry)

        _buttons(dialog, send, "Save")
    return dialog


# ACLs


async def show_acls(view: View) -> None:
    """The page of ACLs."""
    may_alter = view.may("alter", _allowed(view))
    try:
        found = await view.get("/acls", models.Acls, {"search": view.parameter("search")})
    except ApiError as error:
        if error.name != OFF:
            raise
        _head(view, "/access/acls", may_add=False, add="")
        widgets.empty("lock_open", "Everybody may do everything", str(error))
        return
    add = _head(view, "/access/acls", may_add=may_alter, add="Add an ACL")
    if add is not None:
        add.on_click(_acl_dialog(view).open)
    if not found.acls:
        widgets.empty(
            "policy",
            "There are no ACLs here",
            "Without one only super users may do anything. Add one here, or with a command such as:",
            command="barnabas acl add --allow-principal User:ada --consumer --topic orders --group billing",
        )
        return
    rows = [acl_row(at, each) for at, each in enumerate(found.acls)]
    named = [
        ("principal", "Principal"),
        ("permission", ""),
        ("operation", "Operation"),
        ("resource", "On"),
        ("host", "From"),
    ]
    table = widgets.table(_columns(named, may_delete=may_alter), rows, key="id").props("data-is=acls")
    _count(len(found.acls), found.total)
    if may_alter:
        _deleting(rows, table, lambda row: _acl_deletion(view, found.acls[int(row["id"])]))


def acl_row(at: int, acl: models.Acl) -> dict[str, str]:
    """An ACL as a row."""
    begins = "s that begin with" if acl.pattern_type == "prefixed" else ""
    return {
        "id": str(at),
        "principal": showing.visible(acl.principal),
        "permission": "may" if acl.permission == "allow" else "may not",
        "permission_class": "good" if acl.permission == "allow" else "bad",
        "operation": acl.operation,
        "resource": showing.visible(f"{acl.resource_type}{begins} {acl.resource_name}"),
        "host": "anywhere" if acl.host == "*" else acl.host,
        **_DELETABLE,
    }


def _acl_deletion(view: View, acl: models.Acl) -> ui.dialog:
    row = acl_row(0, acl)
    sentence = f"No longer: {row['principal']} {row['permission']} {row['operation']} on {row['resource']}."
    selection = {name: str(getattr(acl, name)) for name in acl.__struct_fields__}
    return widgets.confirm_by_name(
        "ACL", acl.principal, sentence, lambda: _delete(view, "/acls", selection), prompt="Type the principal"
    )


def _acl_dialog(view: View) -> ui.dialog:
    with ui.dialog() as dialog, ui.column().classes("card gap-2").style("width: min(460px, 92vw)"):
        ui.label("Add an ACL").style("font-size: 1.1rem; font-weight: 650")
        principal = ui.input("Principal, as in User:ada; User:* is everybody").classes("w-full")
        principal.props("autofocus autocomplete=off data-is=principal")
        with ui.row().classes("w-full no-wrap"):
            permission = ui.select(["allow", "deny"], value="allow", label="Permission").classes("flex-1")
            operation = ui.select(list(OPERATIONS), value="read", label="Operation").classes("flex-1")
        with ui.row().classes("w-full no-wrap"):
            kind = ui.select(list(RESOURCES), value="topic", label="On a").classes("flex-1")
            pattern = ui.select(["literal", "prefixed"], value="literal", label="Name is").classes("flex-1")
        name = ui.input("Name, or its beginning; * is all").classes("w-full").props("autocomplete=off data-is=resource")
        name.bind_visibility_from(kind, "value", backward=lambda value: value != "cluster")
        host = ui.input("From this address or network; * is any", value="*").classes("w-full")
        said = ui.label("").style("overflow-wrap: anywhere")

        async def send(is_dry: bool) -> None:
            body = {
                "principal": (principal.value or "").strip(),
                "permission": permission.value,
                "operation": operation.value,
                "resource_type": kind.value,
                "pattern_type": "literal" if kind.value == "cluster" else pattern.value,
                "resource_name": CLUSTER_NAME if kind.value == "cluster" else name.value or "",
                "host": (host.value or "").strip() or "*",
            }
            await _changed(view, said, body, "/acls", is_dry=is_dry)

        _buttons(dialog, send, "Add")
    return dialog


# Quotas


async def show_quotas(view: View) -> None:
    """The page of quotas."""
    may_alter = view.may("alter_configs", _allowed(view))
    add = _head(view, "/access/quotas", may_add=may_alter, add="Set a quota")
    if add is not None:
        add.on_click(_quota_dialog(view).open)
    found = await view.get("/quotas", models.Quotas, {"search": view.parameter("search")})
    if not found.quotas:
        widgets.empty(
            "speed",
            "There are no quotas here",
            "Clients may use what the node has. Set one here, or with a command such as:",
            command="barnabas quota set --user ada producer_byte_rate=1000000",
        )
        return
    rows = [quota_row(at, each) for at, each in enumerate(found.quotas)]
    columns = _columns([("entity", "Whose"), ("quotas", "Quotas")], may_delete=may_alter)
    table = widgets.table(columns, rows, key="id").props("data-is=quotas")
    _count(len(found.quotas), found.total)
    if may_alter:
        _deleting(rows, table, lambda row: _quota_deletion(view, found.quotas[int(row["id"])]))


def quota_row(at: int, quota: models.Quota) -> dict[str, str]:
    """The quotas of an entity as a row."""
    return {
        "id": str(at),
        "entity": entity_text(quota.entity),
        "quotas": ", ".join(f"{name}={value:.15g}" for name, value in sorted(quota.quotas.items())),
        **_DELETABLE,
    }


def entity_text(entity: dict[str, str | None]) -> str:
    """Whose quotas they are."""
    return ", ".join(f"{kind} {DEFAULT if name is None else showing.visible(name)}" for kind, name in entity.items())


def _quota_deletion(view: View, quota: models.Quota) -> ui.dialog:
    async def remove() -> None:
        body = {"entity": quota.entity, "quotas": dict.fromkeys(quota.quotas)}
        if await view.attempt(view.send("POST", "/quotas", models.Changed, body)) is not None:
            ui.navigate.reload()

    said = "Its clients are limited no more by: " + ", ".join(sorted(quota.quotas))
    return widgets.confirm_by_name("quotas", entity_text(quota.entity), said, remove, prompt="Type whose they are")


def entity_of(user: str, client_id: str, ip: str) -> dict[str, str | None]:
    """Whose quotas are to be set, of what was typed; what is left empty is no part of it."""
    typed = {"user": user.strip(), "client-id": client_id.strip(), "ip": ip.strip()}
    return {kind: None if name == DEFAULT else name for kind, name in typed.items() if name}


def limits_of(text: str) -> dict[str, float | None]:
    """Quotas from lines of NAME=VALUE, where no value removes one; a `ValueError` says what is wrong."""
    return {name: float(value) if value else None for name, value in settings_of(text).items()}


def _quota_dialog(view: View) -> ui.dialog:
    with ui.dialog() as dialog, ui.column().classes("card gap-2").style("width: min(460px, 92vw)"):
        ui.label("Set quotas").style("font-size: 1.1rem; font-weight: 650")
        ui.label(f"Of a user, a client id, both, or an address. {DEFAULT}: all that have none of their own.").classes(
            "soft"
        )
        user = ui.input("User").classes("w-full").props("autofocus autocomplete=off data-is=quota-user")
        client_id = ui.input("Client id").classes("w-full").props("autocomplete=off")
        ip = ui.input("Address").classes("w-full").props("autocomplete=off")
        limits = ui.textarea("A line each: producer_byte_rate=1000000; without a value it is removed")
        limits.classes("w-full").props("autogrow data-is=limits")
        said = ui.label("")

        async def send(is_dry: bool) -> None:
            try:
                quotas = limits_of(limits.value or "")
            except ValueError as error:
                ui.notify(str(error), type="negative")
                return
            body = {"entity": entity_of(user.value or "", client_id.value or "", ip.value or ""), "quotas": quotas}
            await _changed(view, said, body, "/quotas", is_dry=is_dry)

        _buttons(dialog, send, "Set")
    return dialog


_DELETABLE: Final = {"do": "Delete", "do_class": "act"}


def register() -> None:
    """Make them known."""
    page("/access", "Users", show_users)
    page("/access/acls", "ACLs", show_acls)
    page("/access/quotas", "Quotas", show_quotas)
