"""What is written to a topic now. A ring of the last messages; while it is paused, or when too many come, the count of
those that were dropped says so.
"""

import asyncio
from collections import deque
from typing import Final

import msgspec
from nicegui import background_tasks, events, ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import ApiError, Event, NeedsLogin, part, read
from barnabas.console.pages.messages import COLUMNS
from barnabas.console.pages.record import row, show_record
from barnabas.console.paging import topic_address
from barnabas.console.view import View, page

KEPT: Final = 500
SHOWN: Final = 100
WAITING: Final = 1000
SHOW_S: Final = 0.7
AGAIN_S: Final = 2.0
AGAIN: Final = ("node_stopping", "failed")
"""Reasons for the end of a stream after which another may begin."""


class _Dropped(msgspec.Struct):
    offsets: int = 0


class Ring:
    """The last records of a tail, newest first when shown, and how many are not here."""

    def __init__(self) -> None:
        self.records: deque[models.Record] = deque(maxlen=KEPT)
        self.waiting: deque[models.Record] = deque()
        self.seen = self.dropped = 0
        self.is_paused = False
        self.last_id = ""

    def take(self, event: Event) -> None:
        """One event of the stream."""
        self.last_id = event.id or self.last_id
        if event.kind == "dropped":
            self.dropped += msgspec.json.decode(event.data, type=_Dropped).offsets
        elif event.kind == "record":
            self.seen += 1
            self.waiting.append(msgspec.json.decode(event.data, type=models.Record))
            if len(self.waiting) > WAITING:  # paused for long: those that came first are given up
                self.waiting.popleft()
                self.dropped += 1

    def flush(self) -> bool:
        """Show what has come, unless it is paused; whether there is anything new."""
        if self.is_paused or not self.waiting:
            return False
        self.records.extend(self.waiting)
        self.waiting.clear()
        return True

    def shown(self) -> list[models.Record]:
        """The newest ones."""
        return list(self.records)[-SHOWN:][::-1]


async def show(view: View) -> None:
    """The page."""
    name = str(view.request.path_params["name"])
    topic = await view.get(f"/topics/{part(name)}", models.Topic)
    ring = Ring()
    filters = view.request.query_params.getlist("filter")
    with ui.row().classes("w-full items-center gap-3"):
        ui.link("Topics", "/topics").classes("go")
        ui.label("/").classes("soft")
        ui.link(name, topic_address(name)).classes("go")
        ui.label("/").classes("soft")
        widgets.title("Live")
        ui.space()

        def pause() -> None:
            ring.is_paused = not ring.is_paused
            button.set_text("Go on" if ring.is_paused else "Pause")
            button.set_icon("play_arrow" if ring.is_paused else "pause")

        button = ui.button("Pause", icon="pause", on_click=pause).props("outline no-caps data-is=pause")

        def clear() -> None:
            ring.records.clear()
            refresh()

        ui.button("Clear", icon="clear_all", on_click=clear).props("outline no-caps")
    said = ui.label("Waiting for messages").classes("soft")
    table = widgets.table(COLUMNS, [], key="id").props("data-is=messages")
    table.props('no-data-label="Nothing has been written since this page was opened; what is written now appears here"')
    may_write = view.may("write", topic.allowed) and not topic.is_internal

    async def open_one(event: events.GenericEventArguments) -> None:
        wanted = str(event.args[1].get("id"))
        for each in ring.records:
            if f"{each.partition}:{each.offset}" == wanted:
                await show_record(view, each, may_write=may_write)
                return

    table.on("rowClick", open_one, [[], ["id"], None])

    def refresh() -> None:
        table.rows = [row(view, each) for each in ring.shown()]
        table.update()

    def look() -> None:
        if ring.flush():
            refresh()
        waiting = f", {showing.count(len(ring.waiting))} wait" if ring.waiting else ""
        said.set_text(
            f"{showing.count(ring.seen)} came{waiting}, {showing.count(ring.dropped)} dropped"
            + (" · paused" if ring.is_paused else "")
        )

    ui.timer(SHOW_S, look)
    client = ui.context.client

    async def follow() -> None:
        await client.connected()
        with client:
            await _follow(view, name, ring, filters)

    task = background_tasks.create(follow(), name="tail of the console")

    def end() -> None:
        task.cancel()

    client.on_delete(end)


async def _follow(view: View, topic: str, ring: Ring, filters: list[str]) -> None:
    """Take events until the page is closed; after a break go on where it was."""
    while True:
        try:
            params = {"filter": filters}
            async with view.api.tail(topic, token=view.token, params=params, last_id=ring.last_id) as stream:
                view.say_back()
                async for event in stream:
                    ring.take(event)
                    if event.kind == "end":
                        ended = read(event.data.encode(), models.TailEnd)
                        view.say_away(ended.message)
                        if ended.reason not in AGAIN:
                            return
        except NeedsLogin as error:
            view.say_away(f"{error}; load this page again")
            return
        except ApiError as error:
            view.say_away(str(error))
        await asyncio.sleep(AGAIN_S)


def register() -> None:
    """Make it known."""
    page("/topics/{name}/live", "Live", show)
