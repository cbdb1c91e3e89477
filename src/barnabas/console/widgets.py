"""Parts that pages share: tables, numbers, charts, empty states, dialogs. What comes from the API is always shown as
text: tables through Vue's own escaping, labels as text, charts with fixed keys and numbers alone.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from nicegui import ui

from barnabas.console.showing import Times
from barnabas.console.view import console

COLORS: Final = ("#0d9488", "#6366f1", "#f59e0b", "#ef4444")
AXIS: Final = "#94a3b8"
MAX_POINTS: Final = 120
# ROOT is what `cli.console` has checked to be a path of letters, digits and slashes.
# Of a row: `name` with `name_href` is a link, `name_class` how it looks. Vue escapes what is in {{ }}.
LINK_CELL: Final = (
    '<q-td :props="props"><a v-if="props.row[props.col.name + \'_href\']" class="go" '
    ":href=\"'ROOT' + props.row[props.col.name + '_href']\">{{ props.value }}</a>"
    "<span v-else :class=\"props.row[props.col.name + '_class']\">{{ props.value }}</span></q-td>"
)


def column(name: str, label: str, *, is_right: bool = False) -> dict[str, Any]:
    """A column of a table."""
    return {"name": name, "label": label, "field": name, "align": "right" if is_right else "left"}


def table(columns: list[dict[str, Any]], rows: list[dict[str, Any]], *, key: str) -> ui.table:
    """A table of what is on this page; it scrolls sideways where there is no room."""
    made = ui.table(columns=columns, rows=rows, row_key=key).classes("w-full").props("flat dense hide-pagination")
    made.props(":rows-per-page-options=[0]")
    made.add_slot("body-cell", LINK_CELL.replace("ROOT", console().root_path))
    return made


def heading(text: str) -> None:
    """The heading of a part of a page."""
    ui.label(text).style("font-size: 1.02rem; font-weight: 650")


def title(text: str) -> None:
    """The title of a page."""
    ui.label(text).style("font-size: 1.35rem; font-weight: 650; overflow-wrap: anywhere")


def number(label: str, value: str, *, look: str = "", hint: str = "") -> ui.label:
    """A number in a card of its own; returns the label that shows it."""
    with ui.column().classes("card gap-1").style("flex: 1 1 118px; min-width: 0; padding: .8rem"):
        ui.label(label).classes("soft").style("font-size: .8rem")
        shown = ui.label(value).classes(f"number {look}")
        if hint:
            ui.label(hint).classes("soft text-xs")
    return shown


def empty(icon: str, text: str, what_next: str, *, command: str = "") -> None:
    """What is shown where there is nothing, with what to do next."""
    with ui.column().classes("card w-full items-center text-center gap-2").style("padding: 2.5rem 1rem"):
        ui.icon(icon, size="42px").classes("soft")
        ui.label(text).style("font-weight: 650")
        ui.label(what_next).classes("soft")
        if command:
            ui.label(command).classes("mono content").style("width: auto")


def chart(names: Sequence[str], *, unit: str) -> ui.echart:
    """A chart of values over time; `show_points` fills it."""
    scale = {
        "bytes": "v => v >= 1e9 ? (v/1e9).toFixed(1)+' GB/s' : v >= 1e6 ? (v/1e6).toFixed(1)+' MB/s' : "
        "v >= 1e3 ? (v/1e3).toFixed(0)+' kB/s' : v.toFixed(0)+' B/s'",
        "seconds": "v => v >= 1 ? v.toFixed(1)+' s' : (v*1000).toFixed(v < 0.01 ? 1 : 0)+' ms'",
        "records": "v => v >= 1e6 ? (v/1e6).toFixed(1)+' M' : v >= 1e3 ? (v/1e3).toFixed(1)+' k' : v.toFixed(0)",
    }[unit]
    options: dict[str, Any] = {
        "color": list(COLORS),
        "animation": False,
        "grid": {"left": 8, "right": 30, "top": 34, "bottom": 4, "containLabel": True},
        "legend": {"top": 0, "left": 0, "icon": "roundRect", "itemHeight": 4, "textStyle": {"color": AXIS}},
        "tooltip": {"trigger": "axis", ":valueFormatter": scale},
        "xAxis": {"type": "category", "boundaryGap": False, "data": [], "axisLabel": {"color": AXIS}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "axisLabel": {"color": AXIS, ":formatter": scale},
            "splitLine": {"lineStyle": {"color": "rgba(148,163,184,.22)"}},
        },
        "series": [
            {"type": "line", "name": name, "showSymbol": False, "areaStyle": {"opacity": 0.08}, "data": []}
            for name in names
        ],
    }
    return ui.echart(options).classes("w-full").style("height: 210px")


def show_points(
    made: ui.echart, columns: Sequence[Sequence[float]], *, until_ms: int, step_s: int, times: Times
) -> None:
    """Fill a chart with the last values: at most as many as a page should carry."""
    longest = max((len(each) for each in columns), default=0)
    skip = -(-longest // MAX_POINTS) or 1
    at = [until_ms - (longest - 1 - place) * step_s * 1000 for place in range(longest)]
    made.options["xAxis"]["data"] = [times.clock(each) for each in at[::skip]]
    for series, values in zip(made.options["series"], columns, strict=True):
        series["data"] = [float(f"{value:.4g}") for value in values[::skip]]
        series["showSymbol"] = longest == 1  # a line of one point is none
    made.update()


def confirm_by_name(
    kind: str, name: str, consequence: str, doing: Callable[[], Awaitable[None]], *, prompt: str | None = None
) -> ui.dialog:
    """A dialog that does something only once its name is typed."""
    with ui.dialog() as dialog, ui.column().classes("card").style("min-width: min(420px, 90vw)"):
        ui.label(f"Delete the {kind}").style("font-size: 1.1rem; font-weight: 650")
        ui.label(name).classes("mono")
        ui.label(consequence).classes("bad")
        typed = (
            ui.input(prompt or f"Type the name of the {kind}")
            .classes("w-full")
            .props("autocomplete=off data-is=typed-name")
        )

        async def do() -> None:
            if typed.value == name:
                client = ui.context.client
                dialog.close()
                with client:  # the dialog may be gone before it is done
                    await doing()

        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            button = ui.button("Delete", on_click=do).props("no-caps color=negative")
            button.bind_enabled_from(typed, "value", backward=lambda text: text == name)
    return dialog
