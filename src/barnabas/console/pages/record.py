"""One record in a dialog: its key, value and headers as text, JSON or hex; all of it; a command for it; again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from barnabas.console import models, showing
from barnabas.console.api import part
from barnabas.console.pages.producing import produce_dialog
from barnabas.console.view import View

FORMS: Final = {"text": showing.as_text, "json": showing.as_json, "hex": showing.as_hex}
NAMES: Final = {"text": "Text", "json": "JSON", "hex": "Hex"}
MAX_SHOWN: Final = 1_000_000


def form_for(content: models.Content) -> str:
    """The form that says most of it."""
    if content.encoding != "utf8":
        return "hex"
    return "json" if content.is_json and content.data[:1] in ("{", "[") else "text"


def row(view: View, record: models.Record) -> dict[str, str]:
    """A record as a row of a table: text alone, under names that are ours."""
    return {
        "id": f"{record.partition}:{record.offset}",
        "partition": str(record.partition),
        "offset": str(record.offset),
        "time": view.times.show(record.timestamp),
        "ago": showing.ago(record.timestamp, view.now_ms()),
        "key": showing.preview(record.key),
        "key_class": "soft" if record.key is None else "mono",
        "value": showing.preview(record.value),
        "value_class": "soft" if record.value is None else "mono",
        "size": showing.size(0 if record.value is None else record.value.size),
    }


async def show_record(view: View, record: models.Record, *, may_write: bool) -> None:
    """Open the dialog."""
    with ui.dialog(value=True) as dialog, ui.column().classes("card gap-2 no-wrap") as card:
        card.style("width: min(900px, 96vw); max-width: none; max-height: 92vh; overflow: auto")
        dialog.on("hide", dialog.delete)
        _parts(view, record, card, dialog, may_write=may_write)


def _parts(view: View, record: models.Record, card: ui.column, dialog: ui.dialog, *, may_write: bool) -> None:
    async def load_all() -> None:
        path = f"/topics/{part(record.topic)}/partitions/{record.partition}/records/{record.offset}"
        params = {"isolation": "read_uncommitted"}
        full = await view.attempt(view.get(path, models.Record, params))
        if full is not None:
            card.clear()
            with card:
                _parts(view, full, card, dialog, may_write=may_write)

    with ui.row().classes("w-full items-center no-wrap"):
        ui.label(f"Partition {record.partition}, offset {record.offset}").style("font-size: 1.1rem; font-weight: 650")
        ui.space()
        ui.button(icon="close", on_click=dialog.close).props('flat dense round aria-label="Close"')
    kind = "written by the broker" if record.timestamp_type == "LogAppendTime" else "as the producer says"
    when = f"{view.times.show(record.timestamp)} ({showing.ago(record.timestamp, view.now_ms())}), {kind}"
    ui.label(when).classes("soft")
    _content("Key", record.key, load_all)
    _content("Value", record.value, load_all)
    ui.label(f"Headers ({len(record.headers)})").style("font-weight: 650")
    for header in record.headers:
        with ui.row().classes("w-full no-wrap items-start gap-2"):
            ui.label(showing.visible(header.name)).classes("mono soft").style(
                "min-width: 8rem; overflow-wrap: anywhere"
            )
            ui.label(showing.preview(header.value)).classes("mono").style("overflow-wrap: anywhere")
    with ui.row().classes("w-full justify-end"):
        command = showing.command_for(record, view.api.url)
        ui.button("Copy as command", icon="content_copy", on_click=lambda: _copy(command)).props("outline no-caps")
        if may_write:
            again = produce_dialog(view, record.topic, record)
            ui.button("Edit and resend", icon="replay", on_click=again.open).props("outline no-caps")


def _copy(command: str) -> None:
    ui.clipboard.write(command)
    ui.notify("Copied: " + command)


def _content(name: str, content: models.Content | None, load_all: Callable[[], Awaitable[None]]) -> None:
    with ui.row().classes("w-full items-center gap-3"):
        ui.label(name).style("font-weight: 650")
        ui.label("null" if content is None else showing.size(content.size)).classes("soft")
        if content is None:
            return
        form = form_for(content)
        choice = ui.toggle(NAMES, value=form).props("dense no-caps flat")
    if content.why_not_text and content.encoding != "utf8":
        ui.label(f"Shown as bytes: {content.why_not_text}.").classes("warn")
    text = ui.label(cut(FORMS[form](content))).classes("mono content")

    async def show_form() -> None:
        # Laying out JSON or hex of megabytes takes a while, which others need not wait for.
        text.set_text(cut(await asyncio.to_thread(FORMS[choice.value], content)))

    choice.on_value_change(show_form)
    if content.is_cut:
        ui.button(f"Load all {showing.size(content.size)}", icon="download", on_click=load_all).props(
            "flat no-caps dense"
        )


def cut(text: str) -> str:
    """As much as a page can carry."""
    if len(text) <= MAX_SHOWN:
        return text
    return text[:MAX_SHOWN] + f"\n… {len(text) - MAX_SHOWN} characters more: copy the command to get all of it"
