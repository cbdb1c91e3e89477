"""Writing a message, or one that is already there again with changes."""

from typing import Any

from nicegui import ui

from barnabas.console import models
from barnabas.console.api import part
from barnabas.console.view import View


def headers_of(text: str) -> list[dict[str, str]]:
    """Headers from lines of `NAME: VALUE`; a `ValueError` names the line that is none."""
    found = []
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, colon, value = line.partition(": ")
        if not colon or not name:
            raise ValueError(f"'{line}' is not 'NAME: VALUE'")
        found.append({"name": name, "value": value})
    return found


def body_of(key: str, value: str, headers: str, partition: float | None, *, is_null: bool) -> dict[str, Any]:
    """A record as the API takes it; no key is none, which is not the same as an empty one."""
    return {
        "key": key or None,
        "value": None if is_null else value,
        "headers": headers_of(headers),
        "partition": None if partition is None else int(partition),
    }


def produce_dialog(view: View, topic: str, record: models.Record | None = None) -> ui.dialog:
    """The dialog; with a record it begins as that one."""
    key, value, headers, is_text = _texts_of(record)
    with ui.dialog() as dialog, ui.column().classes("card gap-2").style("width: min(560px, 94vw); max-width: none"):
        ui.label("Write a message").style("font-size: 1.1rem; font-weight: 650")
        ui.label(topic).classes("mono soft")
        if not is_text:
            ui.label("What is no text of this record is left out here: write it with a client.").classes("warn")
        of_key = ui.input("Key (none if left empty)", value=key).classes("w-full").props("data-is=key")
        of_value = ui.textarea("Value", value=value).classes("w-full").props("data-is=value")
        is_null = ui.checkbox("Null: a tombstone in a compacted topic")
        of_headers = ui.textarea("Headers, a line each: name: value", value=headers).classes("w-full").props("autogrow")
        partition = ui.number("Partition (by the key if left empty)", min=0, precision=0).classes("w-full")
        said = ui.label("")

        async def send(*, is_dry: bool) -> None:
            try:
                one = body_of(
                    of_key.value or "",
                    of_value.value or "",
                    of_headers.value or "",
                    partition.value,
                    is_null=is_null.value,
                )
            except ValueError as error:
                ui.notify(str(error), type="negative")
                return
            body = {"records": [one], "validate_only": is_dry}
            done = await view.attempt(view.send("POST", f"/topics/{part(topic)}/records", models.Produced, body))
            if done is not None:
                (placed,) = done.records
                said.set_text(_said(placed, is_dry=is_dry))
                said.classes(replace="bad" if placed.error else "good")

        with ui.row().classes("w-full justify-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            ui.button("Preview", on_click=lambda: send(is_dry=True)).props("outline no-caps")
            ui.button("Write", on_click=lambda: send(is_dry=False)).props("no-caps data-is=write")
    return dialog


def _said(placed: models.Placed, *, is_dry: bool) -> str:
    if placed.error is not None:
        return placed.error.message
    if is_dry:
        where = "any partition" if placed.partition is None else f"partition {placed.partition}"
        return f"Would be written to {where}."
    return f"Written to partition {placed.partition} at offset {placed.offset}."


def _texts_of(record: models.Record | None) -> tuple[str, str, str, bool]:
    if record is None:
        return "", "", "", True
    is_text = all(each is None or (each.encoding == "utf8" and not each.is_cut) for each in (record.key, record.value))
    headers = [
        f"{each.name}: {each.value.data}"
        for each in record.headers
        if each.value is not None and each.value.encoding == "utf8" and "\n" not in each.value.data
    ]
    return _text(record.key), _text(record.value), "\n".join(headers), is_text


def _text(content: models.Content | None) -> str:
    return content.data if content is not None and content.encoding == "utf8" else ""
