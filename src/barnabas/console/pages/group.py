"""One group: its members and what each holds, lag by partition and over time; resetting offsets, deleting."""

from typing import Any, Final

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import ApiError, part
from barnabas.console.pages.groups import state_look
from barnabas.console.paging import topic_address
from barnabas.console.view import View, page

MAX_ROWS: Final = 500
TARGETS: Final = {
    "earliest": "The earliest record",
    "latest": "The end",
    "time": "A time",
    "offset": "An offset",
    "shift": "So many records on (or back: -10)",
}
MEMBER_COLUMNS: Final = [
    widgets.column("client", "Client"),
    widgets.column("host", "Host"),
    widgets.column("member", "Member"),
    widgets.column("holds", "Holds"),
]
OFFSET_COLUMNS: Final = [
    widgets.column("topic", "Topic"),
    widgets.column("partition", "Partition", is_right=True),
    widgets.column("committed", "Committed", is_right=True),
    widgets.column("end", "End", is_right=True),
    widgets.column("lag", "Lag", is_right=True),
    widgets.column("behind", "Behind", is_right=True),
    widgets.column("member", "Held by"),
]
PREVIEW_COLUMNS: Final = [
    widgets.column("topic", "Topic"),
    widgets.column("partition", "Partition", is_right=True),
    widgets.column("before", "Now", is_right=True),
    widgets.column("after", "Then", is_right=True),
]


async def show(view: View) -> None:
    """The page."""
    name = view.parameter("name")
    path = f"/groups/{part(name)}"
    group = await view.get(path, models.Group)
    with ui.row().classes("w-full items-center gap-3"):
        ui.link("Groups", "/groups").classes("go")
        ui.label("/").classes("soft")
        widgets.title(showing.visible(name))
        ui.space()
        _actions(view, group)
    parts = _Parts(group)

    async def refresh() -> None:
        parts.fill(await view.get(path, models.Group))
        await parts.draw(view, name)

    parts.fill(group)
    await parts.draw(view, name)
    view.every(refresh)


class _Parts:
    """What of the page changes with the group."""

    def __init__(self, group: models.Group) -> None:
        with ui.row().classes("w-full gap-2 stretch"):
            self._state = widgets.number("State", "")
            self._members = widgets.number("Members", "")
            self._lag = widgets.number("Lag in records", "")
            self._behind = widgets.number("Behind", "")
            widgets.number("Coordinator", f"node {group.coordinator}", hint=f"{group.type} {group.protocol}".strip())
        with ui.column().classes("card w-full"):
            widgets.heading("Lag over time, a day")
            self._chart = widgets.chart(("records",), unit="records")
            self._no_chart = ui.label("").classes("soft")
        widgets.heading("Members")
        self._of_members = widgets.table(MEMBER_COLUMNS, [], key="member")
        self._nobody = ui.label("Nobody reads with this group now; its offsets stay for a while.").classes("soft")
        widgets.heading("Offsets")
        self._offsets = widgets.table(OFFSET_COLUMNS, [], key="id")
        if len(group.offsets) > MAX_ROWS:
            ui.label(f"The {MAX_ROWS} with the most lag, of {len(group.offsets)}.").classes("soft")

    def fill(self, group: models.Group) -> None:
        """Show the group as it is now."""
        self._state.set_text(group.state)
        self._state.classes(replace=f"number {state_look(group.state)}")
        self._members.set_text(showing.count(len(group.members)))
        self._lag.set_text(showing.count(group.lag))
        self._lag.classes(replace=f"number {'warn' if group.lag else ''}")
        self._behind.set_text(showing.span(group.lag_seconds))
        self._of_members.rows = [member_row(each) for each in group.members]
        self._of_members.update()
        self._of_members.set_visibility(bool(group.members))
        self._nobody.set_visibility(not group.members)
        self._offsets.rows = offset_rows(group)
        self._offsets.update()

    async def draw(self, view: View, name: str) -> None:
        """Draw its lag, if the node that is asked remembers it."""
        try:
            series = await view.history(f"/history/groups/{part(name)}")
        except ApiError as error:
            if error.status != 404:
                raise
            self._no_chart.set_text(str(error))  # another node coordinates it, or it is new
            return
        self._no_chart.set_text("" if series.values else "Measured once a minute: the first value is yet to come.")
        columns = [series.values.get("lag_records", [])]
        widgets.show_points(self._chart, columns, until_ms=series.until_ms, step_s=series.step_s, times=view.times)


def member_row(member: models.Member) -> dict[str, str]:
    """A member as a row."""
    holds = "; ".join(f"{each.topic} {showing.partitions(each.partitions)}" for each in member.assignment)
    return {
        "client": showing.visible(member.client_id) or "-",
        "host": member.host,
        "member": showing.visible(member.instance_id or member.member_id),
        "holds": holds or "nothing",
        "holds_class": "" if holds else "soft",
    }


def offset_rows(group: models.Group) -> list[dict[str, str]]:
    """Its offsets as rows; of very many those with the most lag."""
    offsets = group.offsets
    if len(offsets) > MAX_ROWS:
        offsets = sorted(offsets, key=lambda each: -(each.lag or 0))[:MAX_ROWS]
    clients = {each.member_id: each.client_id or each.member_id for each in group.members}
    return [
        {
            "id": f"{each.topic}:{each.partition}",
            "topic": each.topic,
            "topic_href": topic_address(each.topic),
            "partition": str(each.partition),
            "committed": showing.count(each.committed),
            "end": showing.count(each.end_offset),
            "lag": showing.count(each.lag),
            "lag_class": "warn" if each.lag else "",
            "behind": showing.span(each.lag_seconds) if each.lag_seconds is not None else "-",
            "member": "nobody" if each.member_id is None else showing.visible(clients.get(each.member_id, "?")),
            "member_class": "soft" if each.member_id is None else "",
        }
        for each in offsets
    ]


def _actions(view: View, group: models.Group) -> None:
    if view.may("read", group.allowed):
        is_used = bool(group.members)
        button = ui.button("Reset offsets", icon="restart_alt", on_click=lambda: _reset_dialog(view, group))
        button.props("outline no-caps data-is=reset")
        button.set_enabled(not is_used)
        if is_used:
            button.tooltip("It has members: stop them first, or they would go on from where they are")
    if view.may("delete", group.allowed) and not group.members:

        async def delete() -> None:
            if await view.attempt(view.send("DELETE", f"/groups/{part(group.group)}", models.Changed)):
                ui.navigate.to("/groups")

        consequence = "Its offsets go with it: consumers begin where auto.offset.reset says."
        dialog = widgets.confirm_by_name("group", group.group, consequence, delete)
        ui.button("Delete", icon="delete", on_click=dialog.open).props("outline no-caps color=negative data-is=delete")


def reset_body(view: View, to: str, value: str, topics: list[str]) -> dict[str, Any]:
    """What the API is asked for; a `ValueError` says what is wrong."""
    body: dict[str, Any] = {"to": to, "topics": topics}
    if to == "time":
        body["value"] = view.times.read(value)
    elif to in ("offset", "shift"):
        try:
            body["value"] = int(value)
        except ValueError:
            raise ValueError(f"'{value}' is no whole number") from None
    return body


def _reset_dialog(view: View, group: models.Group) -> None:
    path = f"/groups/{part(group.group)}/offsets"
    named = sorted({each.topic for each in group.offsets})
    with ui.dialog(value=True) as dialog, ui.column().classes("card gap-2 no-wrap") as card:
        card.style("width: min(640px, 96vw); max-width: none; max-height: 92vh; overflow: auto")
        dialog.on("hide", dialog.delete)
        ui.label("Reset offsets").style("font-size: 1.1rem; font-weight: 650")
        to = ui.select(TARGETS, value="earliest", label="To").classes("w-full").props("outlined dense")
        value = ui.input("Value").classes("w-full").props("outlined dense")
        value.bind_visibility_from(to, "value", backward=lambda text: text in ("time", "offset", "shift"))
        topics = ui.select(named, multiple=True, value=named, label="Topics").classes("w-full").props("outlined dense")
        preview = widgets.table(PREVIEW_COLUMNS, [], key="id")
        preview.set_visibility(False)

        async def send(*, is_dry: bool) -> None:
            try:
                body = reset_body(view, str(to.value), value.value or "", list(topics.value or ()))
            except ValueError as error:
                ui.notify(str(error), type="negative")
                return
            body["validate_only"] = is_dry
            done = await view.attempt(view.send("POST", path, models.OffsetsReset, body))
            if done is None:
                return
            preview.rows = [_new_offset_row(each) for each in done.offsets]
            preview.update()
            preview.set_visibility(True)
            apply.set_enabled(is_dry)
            if not is_dry:
                ui.notify("The offsets are set", type="positive")

        with ui.row().classes("w-full justify-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            ui.button("Preview", on_click=lambda: send(is_dry=True)).props("outline no-caps data-is=preview")
            apply = ui.button("Reset", on_click=lambda: send(is_dry=False)).props(
                "no-caps color=negative data-is=apply"
            )
            apply.set_enabled(False)
        for box in (to, value, topics):
            box.on_value_change(lambda: apply.set_enabled(False))  # what is applied is what was previewed


def _new_offset_row(each: models.NewOffset) -> dict[str, str]:
    return {
        "id": f"{each.topic}:{each.partition}",
        "topic": each.topic,
        "partition": str(each.partition),
        "before": "none" if each.before is None else showing.count(each.before),
        "after": each.error.message if each.error else showing.count(each.after),
        "after_class": "bad" if each.error else "good" if each.after != each.before else "soft",
    }


def register() -> None:
    """Make it known."""
    page("/group", "Group", show)
