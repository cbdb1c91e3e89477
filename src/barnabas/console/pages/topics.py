"""Topics: a page at a time, with what is in them, how fast it comes, and who lags behind; creating one."""

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.paging import address, place, topic_address
from barnabas.console.view import View, page

COLUMNS = [
    widgets.column("name", "Topic"),
    widgets.column("partitions", "Partitions", is_right=True),
    widgets.column("replicas", "Replicas", is_right=True),
    widgets.column("health", "Health"),
    widgets.column("size", "Size", is_right=True),
    widgets.column("rate", "Incoming", is_right=True),
    widgets.column("groups", "Groups", is_right=True),
    widgets.column("lag", "Lag", is_right=True),
    widgets.column("cleanup", "Cleanup"),
]


async def show(view: View) -> None:
    """The page."""
    cluster = view.cluster
    assert cluster is not None
    search, after, internal = view.parameter("search"), view.parameter("after"), view.parameter("internal") == "1"
    with ui.row().classes("w-full items-center gap-3"):
        widgets.title("Topics")
        ui.space()
        box = ui.input("Filter by name", value=search).props("dense outlined clearable data-is=search")

        def go() -> None:
            wanted = {"search": (box.value or "").strip(), "internal": "1" if switch.value else ""}
            ui.navigate.to(address("/topics", wanted))

        box.on("keydown.enter", go)
        box.on("clear", go)
        switch = ui.switch("Internal", value=internal, on_change=go)
        if view.may("create", cluster.allowed):
            dialog = _create_dialog(view)
            ui.button("Create a topic", icon="add", on_click=dialog.open).props("no-caps")
    params = {"search": search, "after": after, "internal": "true" if internal else "false", "limit": "100"}
    found = await view.get("/topics", models.Topics, params)
    if not found.topics:
        _nothing(search)
        return
    table = widgets.table(COLUMNS, [row(each) for each in found.topics], key="name")
    with ui.row().classes("w-full items-center gap-4"):
        ui.label(place(len(found.topics), found.total, is_first=not after, has_next=found.next is not None)).classes(
            "soft"
        )
        kept = {"search": search, "internal": "1" if internal else ""}
        if after:
            ui.link("First page", address("/topics", kept)).classes("go")
        if found.next is not None:
            ui.link("Next page", address("/topics", {**kept, "after": found.next})).classes("go")

    async def refresh() -> None:
        again = await view.get("/topics", models.Topics, params)
        table.rows = [row(each) for each in again.topics]
        table.update()

    view.every(refresh)


def _nothing(search: str) -> None:
    if search:
        widgets.empty("search_off", f"No topic has '{search}' in its name", "Clear the filter, or show internal ones.")
    else:
        widgets.empty(
            "topic",
            "There are no topics yet",
            "Create one with the button above, or on the command line:",
            command="barnabas topic create hello",
        )


def row(topic: models.TopicRow) -> dict[str, str]:
    """A topic as a row."""
    if topic.offline:
        health, look = f"{topic.offline} offline", "bad"
    elif topic.under_replicated:
        health, look = f"{topic.under_replicated} under-replicated", "warn"
    else:
        health, look = "good", "good"
    return {
        "name": topic.name,
        "name_href": topic_address(topic.name),
        "partitions": showing.count(topic.partitions),
        "replicas": showing.count(topic.replication_factor),
        "health": health,
        "health_class": look,
        "size": showing.size(topic.size_bytes),
        "rate": showing.rate(topic.bytes_in_per_second),
        "groups": showing.count(topic.groups) if topic.groups else "-",
        "lag": showing.count(topic.lag) if topic.groups else "-",
        "lag_class": "warn" if topic.lag else "",
        "cleanup": topic.cleanup_policy,
    }


def settings_of(text: str) -> dict[str, str]:
    """Settings from lines of NAME=VALUE; a `ValueError` names the line that is none."""
    found: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"'{line}' is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _create_dialog(view: View) -> ui.dialog:
    with ui.dialog() as dialog, ui.column().classes("card gap-2").style("width: min(460px, 92vw)"):
        ui.label("Create a topic").style("font-size: 1.1rem; font-weight: 650")
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off data-is=topic-name")
        with ui.row().classes("w-full no-wrap"):
            partitions = ui.number("Partitions (default)", min=1, precision=0).classes("flex-1")
            replicas = ui.number("Replicas (default)", min=1, precision=0).classes("flex-1")
        settings = ui.textarea("Settings, a line each: retention.ms=86400000").classes("w-full").props("autogrow")
        said = ui.label("").style("white-space: pre-line")

        async def send(*, is_dry: bool) -> None:
            try:
                body = {
                    "name": (name.value or "").strip(),
                    "partitions": None if partitions.value is None else int(partitions.value),
                    "replication_factor": None if replicas.value is None else int(replicas.value),
                    "settings": settings_of(settings.value or ""),
                    "validate_only": is_dry,
                }
            except ValueError as error:
                ui.notify(str(error), type="negative")
                return
            done = await view.attempt(view.send("POST", "/topics", models.Changed, body))
            if done is None:
                return
            if is_dry:
                said.set_text("Would be created with " + ", ".join(done.changes) + ".")
            else:
                ui.navigate.to(topic_address(done.name))

        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            ui.button("Preview", on_click=lambda: send(is_dry=True)).props("outline no-caps")
            ui.button("Create", on_click=lambda: send(is_dry=False)).props("no-caps data-is=create")
    return dialog


def register() -> None:
    """Make it known."""
    page("/topics", "Topics", show)
