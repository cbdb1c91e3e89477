"""The messages of a topic: from a position, of a key, of a partition, those that pass filters.

Where a search begins and what it looks for is in the address. A search that takes long says how far it is, can be
stopped, and goes on where it was.
"""

from typing import Any, Final

from nicegui import events, ui

from barnabas.console import exporting, models, showing, widgets
from barnabas.console.api import ApiError, part
from barnabas.console.pages.producing import produce_dialog
from barnabas.console.pages.record import row, show_record
from barnabas.console.paging import address, topic_address
from barnabas.console.view import View, page

LIMIT: Final = 50
MAX_SHOWN: Final = 500
ROUND_MS: Final = 1000
MAX_EXPORT: Final = 32 * 1024 * 1024
OPERATORS: Final = ("contains", "eq", "ne", "lt", "le", "gt", "ge", "starts", "matches", "exists", "missing")
FROM: Final = {"newest": "Newest first", "oldest": "Oldest first", "offset": "From an offset", "time": "From a time"}
COLUMNS: Final = [
    widgets.column("partition", "Partition", is_right=True),
    widgets.column("offset", "Offset", is_right=True),
    widgets.column("time", "Time"),
    widgets.column("ago", ""),
    widgets.column("key", "Key"),
    widgets.column("value", "Value"),
    widgets.column("size", "Size", is_right=True),
]


def search_params(query: dict[str, str], filters: list[str], view: View) -> dict[str, str | list[str]]:
    """What the API is asked for, from the address of the page; a `ValueError` says what is wrong."""
    found: dict[str, str | list[str]] = {"limit": str(LIMIT), "budget_ms": str(ROUND_MS)}
    begin = query.get("from") or "newest"
    found["order"] = "newest" if begin == "newest" else "oldest"
    at = query.get("at", "").strip()
    if begin == "offset":
        if not at.isdecimal():
            raise ValueError("an offset is a whole number")
        found["offset"] = at
    elif begin == "time":
        found["time"] = str(view.times.read(at))
    numbers = [each.strip() for each in query.get("partition", "").split(",") if each.strip()]
    if not all(each.isdecimal() for each in numbers):
        raise ValueError("partitions are whole numbers, as in 0,3")
    if numbers:
        found["partition"] = numbers
    if query.get("key"):
        found["key"] = query["key"]
    if filters:
        found["filter"] = filters
    if query.get("uncommitted") == "1":
        found["isolation"] = "read_uncommitted"
    return found


class Search:
    """A search: its table, how far it is, and where it goes on."""

    def __init__(self, view: View, topic: models.Topic, params: dict[str, str | list[str]]) -> None:
        self._view = view
        self._topic = topic
        self._params = params
        self._records: dict[str, models.Record] = {}
        self._next: str | None = None
        self._left = 0
        self._scanned = self._scanned_bytes = 0
        self._is_running = False
        self._may_write = view.may("write", topic.allowed) and not topic.is_internal
        self._progress = ui.label("").classes("soft")
        self._bar = ui.linear_progress(show_value=False).props("indeterminate")
        self._table = widgets.table(COLUMNS, [], key="id").props("data-is=messages")
        self._table.on("rowClick", self._open, [[], ["id"], None])
        self._nothing = ui.column().classes("w-full")
        with ui.row().classes("items-center gap-3"):
            self._more = ui.button("Continue", icon="expand_more", on_click=self.go_on).props("outline no-caps")
            self._stop = ui.button("Stop", icon="stop", on_click=self._halt).props("outline no-caps color=negative")
            self._export = ui.dropdown_button("Export", icon="download", auto_close=True).props("outline no-caps")
            with self._export.props("data-is=export"):
                ui.item("JSON lines", on_click=lambda: self._save("jsonl"))
                ui.item("CSV", on_click=lambda: self._save("csv"))
        self._set_running(is_running=False)

    async def first(self) -> None:
        """The first round, with which the page is shown."""
        await self._round()
        self._say()

    async def go_on(self) -> None:
        """Search until there are as many more as fit a page, all is read, or somebody stops it."""
        if self._is_running or self._next is None:
            return
        until = min(len(self._records), MAX_SHOWN - LIMIT) + LIMIT
        self._set_running(is_running=True)
        try:
            while len(self._records) < until and self._may_go_on():
                if await self._view.attempt(self._round()) is None:
                    break
                self._say()
        finally:
            self._set_running(is_running=False)
            self._say()

    def _may_go_on(self) -> bool:
        """Asked anew after each round: somebody may have stopped it."""
        return self._is_running and self._next is not None

    def _halt(self) -> None:
        self._is_running = False

    async def _round(self) -> bool:
        params = dict(self._params)
        if self._next is not None:
            params["cursor"] = self._next
        found = await self._view.get(f"/topics/{part(self._topic.name)}/records", models.Records, params)
        self._next = found.next
        self._scanned += found.progress.scanned_records
        self._scanned_bytes += found.progress.scanned_bytes
        self._left = found.progress.left_offsets
        for each in found.records:
            self._records[f"{each.partition}:{each.offset}"] = each
        for old in list(self._records)[: max(len(self._records) - MAX_SHOWN, 0)]:
            del self._records[old]
        for index, problem in found.errors.items():
            ui.notify(f"Partition {index}: {problem.message}", type="warning")
        self._table.rows = [row(self._view, each) for each in self._records.values()]
        self._table.update()
        return True

    def _say(self) -> None:
        left = "all is read" if self._next is None else f"{showing.count(self._left)} offsets are left"
        self._progress.set_text(
            f"{showing.count(len(self._records))} shown · looked at {showing.count(self._scanned)} records "
            f"({showing.size(self._scanned_bytes)}), {left}"
        )
        self._more.set_visibility(self._next is not None and not self._is_running)
        self._nothing.clear()
        self._table.set_visibility(bool(self._records))
        may_export = self._view.cluster is not None and self._view.cluster.is_export_allowed
        self._export.set_visibility(bool(self._records) and may_export)
        if not self._records:
            with self._nothing:
                self._say_nothing()

    async def _save(self, kind: str) -> None:
        """Give what is shown to the browser as a file; of what was cut all of it."""
        records = await self._view.attempt(self._whole_records())
        if records is not None:
            data = exporting.csv_text(records) if kind == "csv" else exporting.json_lines(records)
            media = "text/csv" if kind == "csv" else "application/x-ndjson"
            ui.download.content(data, f"{self._topic.name}.{kind}", media)

    async def _whole_records(self) -> list[models.Record]:
        records = list(self._records.values())
        size = 0
        for at in exporting.cut_ones(records):
            each = records[at]
            path = f"/topics/{part(each.topic)}/partitions/{each.partition}/records/{each.offset}"
            records[at] = await self._view.get(path, models.Record, {"isolation": "read_uncommitted"})
            size += sum(len(content.data) for content in (records[at].key, records[at].value) if content is not None)
            if size > MAX_EXPORT:
                most = showing.size(MAX_EXPORT)
                raise ApiError(f"these are more than {most}: show fewer, or use GET /topics/.../export of the API")
        return records

    def _say_nothing(self) -> None:
        if self._next is not None:
            widgets.empty("hourglass_empty", "Nothing found so far", "There is more to look at: continue.")
        elif "filter" in self._params or "key" in self._params:
            widgets.empty("search_off", "No message is like that", "All were looked at. Change or remove a filter.")
        else:
            widgets.empty("mail", "There are no messages here", "Write one, or begin at another position.")

    def _set_running(self, *, is_running: bool) -> None:
        self._is_running = is_running
        self._bar.set_visibility(is_running)
        self._stop.set_visibility(is_running)
        self._more.set_visibility(not is_running and self._next is not None)

    async def _open(self, event: events.GenericEventArguments) -> None:
        found = self._records.get(str(event.args[1].get("id")))
        if found is not None:
            await show_record(self._view, found, may_write=self._may_write)


async def show(view: View) -> None:
    """The page."""
    name = str(view.request.path_params["name"])
    topic = await view.get(f"/topics/{part(name)}", models.Topic)
    with ui.row().classes("w-full items-center gap-3"):
        ui.link("Topics", "/topics").classes("go")
        ui.label("/").classes("soft")
        ui.link(name, topic_address(name)).classes("go")
        ui.label("/").classes("soft")
        widgets.title("Messages")
        ui.space()
        live = topic_address(name, "live")
        ui.button("Live", icon="sensors", on_click=lambda: ui.navigate.to(live)).props("outline no-caps")
        if view.may("write", topic.allowed) and not topic.is_internal:
            dialog = produce_dialog(view, name)
            ui.button("Write a message", icon="edit", on_click=dialog.open).props("no-caps")
    query = dict(view.request.query_params)
    filters = view.request.query_params.getlist("filter")
    _form(name, query, filters)
    try:
        params = search_params(query, filters, view)
    except ValueError as error:
        ui.label(str(error)).classes("bad")
        return
    await Search(view, topic, params).first()


def _form(name: str, query: dict[str, str], filters: list[str]) -> None:
    """Where to begin and what to look for; going there changes the address."""
    path = topic_address(name, "messages")
    with ui.column().classes("card w-full gap-2"):
        with ui.row().classes("w-full items-center gap-3"):
            begin = ui.select(FROM, value=query.get("from") if query.get("from") in FROM else "newest", label="Begin")
            begin.props("dense outlined").style("min-width: 150px")
            at = ui.input("Offset or time", value=query.get("at", "")).props("dense outlined")
            at.bind_visibility_from(begin, "value", backward=lambda value: value in ("offset", "time"))
            partition = ui.input("Partitions", value=query.get("partition", "")).props("dense outlined")
            key = ui.input("Key", value=query.get("key", "")).props("dense outlined data-is=by-key")
            open_too = ui.checkbox("Uncommitted, too", value=query.get("uncommitted") == "1")
        with ui.row().classes("w-full items-center gap-3"):
            field = ui.input("Field: key, value, value.a.b, header.x").props("dense outlined").style("min-width: 260px")
            operator = ui.select(list(OPERATORS), value="contains").props("dense outlined").style("min-width: 110px")
            literal = ui.input("Value").props("dense outlined")

            def go(kept: list[str]) -> None:
                new = f"{field.value.strip()}:{operator.value}:{literal.value or ''}" if field.value else ""
                params: dict[str, Any] = {
                    "from": begin.value or "",
                    "at": (at.value or "").strip() if begin.value in ("offset", "time") else "",
                    "partition": (partition.value or "").strip(),
                    "key": key.value or "",
                    "uncommitted": "1" if open_too.value else "",
                    "filter": [*kept, new],
                }
                ui.navigate.to(address(path, params))

            ui.button("Search", icon="search", on_click=lambda: go(filters)).props("no-caps data-is=search")
        for box in (at, partition, key, literal, field):
            box.on("keydown.enter", lambda: go(filters))
        if filters:
            with ui.row().classes("gap-2"):
                for each in filters:
                    with ui.row().classes("items-center gap-1 card").style("padding: .1rem .3rem .1rem .7rem"):
                        ui.label(each).classes("mono")
                        rest = [other for other in filters if other != each]
                        ui.button(icon="close", on_click=lambda rest=rest: go(rest)).props(
                            'flat dense round size=sm aria-label="Remove the filter"'
                        )


def register() -> None:
    """Make it known."""
    page("/topics/{name}/messages", "Messages", show)
