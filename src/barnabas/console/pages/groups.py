"""Groups, a page at a time, with their lag in records and in seconds."""

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.paging import address, group_address, place
from barnabas.console.view import View, page

GOOD = ("stable", "reconciling", "assigning")
COLUMNS = [
    widgets.column("group", "Group"),
    widgets.column("state", "State"),
    widgets.column("type", "Type"),
    widgets.column("members", "Members", is_right=True),
    widgets.column("lag", "Lag", is_right=True),
    widgets.column("behind", "Behind", is_right=True),
    widgets.column("coordinator", "Coordinator", is_right=True),
]


async def show(view: View) -> None:
    """The page."""
    search, after = view.parameter("search"), view.parameter("after")
    with ui.row().classes("w-full items-center gap-3"):
        widgets.title("Groups")
        ui.space()
        box = ui.input("Filter by name", value=search).props("dense outlined clearable data-is=search")

        def go() -> None:
            ui.navigate.to(address("/groups", {"search": (box.value or "").strip()}))

        box.on("keydown.enter", go)
        box.on("clear", go)
    params = {"search": search, "after": after, "limit": "100", "lag": "true"}
    found = await view.get("/groups", models.Groups, params)
    for node, why in found.errors.items():
        ui.label(f"Groups of node {node} are not here: {why}").classes("warn")
    if not found.groups:
        if search:
            widgets.empty("search_off", f"No group has '{search}' in its name", "Clear the filter.")
        else:
            widgets.empty(
                "group_work",
                "There are no groups yet",
                "A group appears when consumers with a group.id read, as this command does:",
                command="barnabas consume hello --group readers",
            )
        return
    table = widgets.table(COLUMNS, [row(each) for each in found.groups], key="group")
    with ui.row().classes("w-full items-center gap-4"):
        text = place(len(found.groups), found.total, is_first=not after, has_next=found.next is not None)
        ui.label(text).classes("soft")
        if after:
            ui.link("First page", address("/groups", {"search": search})).classes("go")
        if found.next is not None:
            ui.link("Next page", address("/groups", {"search": search, "after": found.next})).classes("go")

    async def refresh() -> None:
        again = await view.get("/groups", models.Groups, params)
        table.rows = [row(each) for each in again.groups]
        table.update()

    view.every(refresh)


def row(group: models.GroupRow) -> dict[str, str]:
    """A group as a row."""
    return {
        "group": group.group,
        "group_href": group_address(group.group),
        "state": group.state,
        "state_class": state_look(group.state),
        "type": group.type or group.protocol_type or "-",
        "members": showing.count(group.members),
        "lag": showing.count(group.lag),
        "lag_class": "warn" if group.lag else "",
        "behind": showing.span(group.lag_seconds),
        "coordinator": f"node {group.coordinator}",
    }


def state_look(state: str) -> str:
    """How a state looks."""
    name = state.lower()
    return "good" if name in GOOD else "soft" if name in ("empty", "dead") else "warn"


def register() -> None:
    """Make it known."""
    page("/groups", "Groups", show)
