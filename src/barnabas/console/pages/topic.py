"""One topic: its partitions, settings with their meaning, the groups that read it; writing to it, deleting it."""

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import part
from barnabas.console.pages.producing import produce_dialog
from barnabas.console.paging import group_address, topic_address
from barnabas.console.view import View, page

MAX_PARTITIONS = 500
PARTITION_COLUMNS = [
    widgets.column("partition", "Partition", is_right=True),
    widgets.column("leader", "Leader"),
    widgets.column("replicas", "Replicas"),
    widgets.column("isr", "In sync"),
    widgets.column("start", "First offset", is_right=True),
    widgets.column("end", "End offset", is_right=True),
    widgets.column("offsets", "Offsets", is_right=True),
    widgets.column("size", "Size", is_right=True),
    widgets.column("look", ""),
]
SETTING_COLUMNS = [
    widgets.column("name", "Setting"),
    widgets.column("value", "Value"),
    widgets.column("source", "From"),
    widgets.column("meaning", "Meaning"),
]
GROUP_COLUMNS = [
    widgets.column("group", "Group"),
    widgets.column("lag", "Lag", is_right=True),
    widgets.column("behind", "Behind", is_right=True),
]


async def show(view: View) -> None:
    """The page."""
    name = str(view.request.path_params["name"])
    path = f"/topics/{part(name)}"
    topic = await view.get(path, models.Topic)
    _top(view, topic)
    with ui.row().classes("w-full gap-2 stretch"):
        total = widgets.number("Offsets", showing.count(offsets_of(topic)))
        size = widgets.number("Size of the leaders", showing.size(size_of(topic)))
        widgets.number("Partitions", showing.count(len(topic.partitions)))
        widgets.number("Groups", showing.count(len(topic.groups)))
    if not offsets_of(topic):
        widgets.empty(
            "mail",
            "Nothing has been written yet",
            "Write a message with the button above, with any Kafka client, or on the command line:",
            command=f"echo hello | barnabas produce {name}",
        )
    with ui.column().classes("card w-full"):
        widgets.heading("Traffic on this node, last hour")
        traffic = widgets.chart(("in", "out"), unit="bytes")
    widgets.heading("Partitions")
    shown = topic.partitions[:MAX_PARTITIONS]
    partitions = widgets.table(PARTITION_COLUMNS, [partition_row(name, each) for each in shown], key="partition")
    if len(topic.partitions) > MAX_PARTITIONS:
        ui.label(f"The first {MAX_PARTITIONS} of {len(topic.partitions)}.").classes("soft")
    widgets.heading("Groups")
    if topic.groups:
        widgets.table(GROUP_COLUMNS, [_group_row(each) for each in topic.groups], key="group")
    else:
        ui.label("No group that this node coordinates has committed offsets here.").classes("soft")
    _settings(topic)

    async def refresh() -> None:
        again = await view.get(path, models.Topic)
        partitions.rows = [partition_row(name, each) for each in again.partitions[:MAX_PARTITIONS]]
        partitions.update()
        total.set_text(showing.count(offsets_of(again)))
        size.set_text(showing.size(size_of(again)))
        await fill()

    async def fill() -> None:
        series = await view.history(f"/history/topics/{part(name)}")
        columns = [series.values.get(each, []) for each in ("bytes_in_per_second", "bytes_out_per_second")]
        widgets.show_points(traffic, columns, until_ms=series.until_ms, step_s=series.step_s, times=view.times)

    await fill()
    view.every(refresh)


def _top(view: View, topic: models.Topic) -> None:
    with ui.row().classes("w-full items-center gap-3"):
        ui.link("Topics", "/topics").classes("go")
        ui.label("/").classes("soft")
        widgets.title(topic.name)
        ui.space()
        if "read" in topic.allowed:
            _button("Messages", "mail", topic_address(topic.name, "messages"))
            _button("Live", "sensors", topic_address(topic.name, "live"))
        if view.may("write", topic.allowed) and not topic.is_internal:
            dialog = produce_dialog(view, topic.name)
            ui.button("Write a message", icon="edit", on_click=dialog.open).props("no-caps")
        if view.may("delete", topic.allowed) and not topic.is_internal:
            _delete_button(view, topic)


def _button(text: str, icon: str, target: str) -> None:
    ui.button(text, icon=icon, on_click=lambda: ui.navigate.to(target)).props("outline no-caps")


def _delete_button(view: View, topic: models.Topic) -> None:
    async def delete() -> None:
        if await view.attempt(view.send("DELETE", f"/topics/{part(topic.name)}", models.Changed)):
            ui.navigate.to("/topics")

    consequence = f"All records of its {len(topic.partitions)} partitions go with it, and cannot be brought back."
    dialog = widgets.confirm_by_name("topic", topic.name, consequence, delete)
    ui.button("Delete", icon="delete", on_click=dialog.open).props("outline no-caps color=negative data-is=delete")


def offsets_of(topic: models.Topic) -> int:
    """How many offsets its logs span."""
    return sum(max(each.end_offset - each.start_offset, 0) for each in topic.partitions)


def size_of(topic: models.Topic) -> int:
    """What its leaders hold."""
    return sum(each.sizes.get(each.leader, 0) for each in topic.partitions)


def partition_row(topic: str, each: models.Partition) -> dict[str, str]:
    """A partition as a row."""
    is_known = each.end_offset >= 0
    missing = [node for node in each.replicas if node not in each.in_sync]
    return {
        "partition": str(each.partition),
        "leader": "none" if each.leader < 0 else f"{each.leader}",
        "leader_class": "bad" if each.leader < 0 else "",
        "replicas": ", ".join(map(str, each.replicas)),
        "isr": ", ".join(map(str, each.in_sync)),
        "isr_class": "warn" if missing else "",
        "start": showing.count(each.start_offset) if is_known else "?",
        "end": showing.count(each.end_offset) if is_known else "?",
        "offsets": showing.count(each.end_offset - each.start_offset) if is_known else "?",
        "size": showing.size(each.sizes.get(each.leader, 0)),
        "look": "Messages" if each.error is None else each.error.message,
        "look_href": "" if each.error else topic_address(topic, f"messages?partition={each.partition}"),
        "look_class": "bad" if each.error else "",
    }


def _group_row(each: models.GroupOfTopic) -> dict[str, str]:
    return {
        "group": each.group,
        "group_href": group_address(each.group),
        "lag": showing.count(each.lag),
        "lag_class": "warn" if each.lag else "",
        "behind": showing.span(each.lag_seconds),
    }


def setting_row(each: models.Setting) -> dict[str, str]:
    """A setting as a row."""
    return {
        "name": each.name,
        "value": "(hidden)" if each.is_sensitive else each.value if each.value is not None else "-",
        "value_class": "" if each.is_default else "good",
        "source": "default" if each.is_default else each.source.lower().replace("_", " "),
        "meaning": each.meaning or "",
    }


def _settings(topic: models.Topic) -> None:
    if not topic.settings:
        return
    changed = [each for each in topic.settings if not each.is_default]
    with ui.row().classes("w-full items-center"):
        widgets.heading("Settings")
        ui.space()
        is_all = ui.switch("Defaults, too", value=not changed)
    rows = [setting_row(each) for each in topic.settings]
    of_changed = [setting_row(each) for each in changed]
    table = widgets.table(SETTING_COLUMNS, rows if not changed else of_changed, key="name").props("wrap-cells")

    def choose() -> None:
        table.rows = rows if is_all.value else of_changed
        table.update()

    is_all.on_value_change(choose)


def register() -> None:
    """Make it known."""
    page("/topics/{name}", "Topic", show)
