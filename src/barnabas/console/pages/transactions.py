"""Transactions: which are open, since when; those that have been open for longer than they may stand out."""

from typing import Final

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import ApiError, part
from barnabas.console.view import View, page

OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
MAX_DESCRIBED: Final = 50
PAGE: Final = 100
COLUMNS: Final = [
    widgets.column("id", "Transactional id"),
    widgets.column("state", "State"),
    widgets.column("open", "Open for"),
    widgets.column("limit", "At most", is_right=True),
    widgets.column("partitions", "Partitions"),
    widgets.column("producer", "Producer", is_right=True),
    widgets.column("coordinator", "Coordinator", is_right=True),
]


async def show(view: View) -> None:
    """The page."""
    with ui.row().classes("w-full items-center gap-3"):
        widgets.title("Transactions")
        ui.space()
        is_all = view.parameter("all") == "1"
        ui.switch(
            "Finished ones, too",
            value=is_all,
            on_change=lambda event: ui.navigate.to("/transactions?all=1" if event.value else "/transactions"),
        )
    said = ui.label("").classes("soft")
    table = widgets.table(COLUMNS, [], key="id")
    nothing = ui.column().classes("w-full")
    with nothing:
        widgets.empty(
            "swap_horiz",
            "No transaction is open",
            "One appears while a producer with a transactional.id writes. Finished ones are behind the switch above.",
        )

    async def refresh() -> None:
        found = await view.get("/transactions", models.Transactions, {} if is_all else {"state": list(OPEN)})
        described = await describe(view, found.transactions[:PAGE])
        rows = [row(view, each) for each in described]
        table.rows = sorted(rows, key=lambda each: each["state_class"] != "bad")
        table.update()
        table.set_visibility(bool(rows))
        nothing.set_visibility(not rows)
        hanging = sum(is_hanging(each, view.now_ms()) for each in described)
        more = f"; the first {PAGE} are shown" if len(found.transactions) > PAGE else ""
        problems = "".join(f" Node {node} did not answer: {why}." for node, why in found.errors.items())
        said.set_text(f"{showing.count(len(found.transactions))} in all, {hanging} hanging{more}.{problems}")
        said.classes(replace="bad" if hanging else "soft")

    await refresh()
    view.every(refresh)


async def describe(view: View, found: list[models.Transaction]) -> list[models.Transaction]:
    """Those that are open with all that is known of them: how long, and what they write to."""
    described = []
    left = MAX_DESCRIBED
    for each in found:
        if each.state in OPEN and left:
            left -= 1
            try:
                described.append(await view.get(f"/transactions/{part(each.transactional_id)}", models.Transaction))
                continue
            except ApiError as error:
                if error.status != 404:  # it may have ended since
                    raise
        described.append(each)
    return described


def is_hanging(each: models.Transaction, now_ms: float) -> bool:
    """Whether it is open for longer than its producer allowed: its coordinator should have ended it."""
    return (
        each.state in OPEN
        and each.start_ms is not None
        and each.timeout_ms is not None
        and now_ms - each.start_ms > each.timeout_ms
    )


def row(view: View, each: models.Transaction) -> dict[str, str]:
    """A transaction as a row."""
    hangs = is_hanging(each, view.now_ms())
    parts = "; ".join(f"{at.topic} {showing.partitions(at.partitions)}" for at in each.partitions)
    is_open = each.state in OPEN and each.start_ms is not None
    return {
        "id": showing.visible(each.transactional_id),
        "state": f"{each.state}, hanging" if hangs else each.state,
        "state_class": "bad" if hangs else "warn" if each.state in OPEN else "soft",
        "open": showing.span((view.now_ms() - (each.start_ms or 0)) / 1000) if is_open else "-",
        "open_class": "bad" if hangs else "",
        "limit": "-" if each.timeout_ms is None else showing.span(each.timeout_ms / 1000),
        "partitions": parts or "-",
        "producer": str(each.producer_id),
        "coordinator": f"node {each.coordinator}",
    }


def register() -> None:
    """Make it known."""
    page("/transactions", "Transactions", show)
