"""Nodes: racks, roles, disks, the quorum, and which node holds which partition."""

from typing import Any, Final

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.api import part
from barnabas.console.pages.overview import NODE_COLUMNS, node_row
from barnabas.console.paging import topic_address
from barnabas.console.view import View, page

MAP_TOPICS: Final = 20
QUORUM_COLUMNS: Final = [
    widgets.column("node", "Node"),
    widgets.column("role", "Role"),
    widgets.column("end", "Log end", is_right=True),
    widgets.column("lag", "Lag", is_right=True),
    widgets.column("fetched", "Last fetch"),
    widgets.column("caught", "Last caught up"),
]


async def show(view: View) -> None:
    """The page."""
    cluster = view.cluster
    assert cluster is not None
    widgets.title("Nodes")
    nodes = await view.shared("/nodes", list[models.Node])
    table = widgets.table(NODE_COLUMNS, [node_row(each) for each in nodes], key="node")
    widgets.heading("Quorum")
    epoch = ui.label("").classes("soft")
    quorum = widgets.table(QUORUM_COLUMNS, [], key="node")
    await _replica_map(view, nodes)

    def fill(found: models.Cluster) -> None:
        leader = "nobody" if found.quorum.leader_id < 0 else f"node {found.quorum.leader_id}"
        epoch.set_text(
            f"{leader} leads in epoch {found.quorum.epoch}; {showing.count(found.quorum.high_watermark)} is committed"
        )
        quorum.rows = [quorum_row(view, each) for each in found.quorum.members]
        quorum.update()

    async def refresh() -> None:
        fill(await view.shared("/cluster", models.Cluster))
        table.rows = [node_row(each) for each in await view.shared("/nodes", list[models.Node])]
        table.update()

    fill(cluster)
    view.every(refresh)


def quorum_row(view: View, member: models.QuorumMember) -> dict[str, str]:
    """A member of the quorum as a row."""
    return {
        "node": str(member.node_id),
        "role": member.role,
        "role_class": "good" if member.role == "leader" else "",
        "end": showing.count(member.log_end_offset),
        "lag": showing.count(member.lag),
        "lag_class": "warn" if member.lag > 100 else "",
        "fetched": showing.ago(member.last_fetch_ms, view.now_ms()) or "-",
        "caught": showing.ago(member.last_caught_up_ms, view.now_ms()) or "-",
    }


async def _replica_map(view: View, nodes: list[models.Node]) -> None:
    """What each node holds of each topic: what it leads, follows, and follows without being in sync."""
    after = view.parameter("after")
    params = {"limit": str(MAP_TOPICS), "internal": "true", "after": after}
    found = await view.get("/topics", models.Topics, params)
    widgets.heading("Replica map")
    if not found.topics:
        widgets.empty("grid_view", "There are no topics to be held", "Create one under Topics.")
        return
    ui.label("Partitions that each node leads, follows, and follows without being in sync.").classes("soft")
    columns = [widgets.column("topic", "Topic")]
    for node in nodes:
        rack = f" ({node.rack})" if node.rack else ""
        columns.append(widgets.column(f"node_{node.node_id}", f"Node {node.node_id}{rack}"))
    rows = []
    for each in found.topics:
        topic = await view.get(f"/topics/{part(each.name)}", models.Topic)
        rows.append(map_row(topic, nodes))
    widgets.table(columns, rows, key="topic").props("wrap-cells")
    with ui.row().classes("gap-4"):
        if after:
            ui.link("First topics", "/nodes").classes("go")
        if found.next is not None:
            ui.link("More topics", f"/nodes?after={found.next}").classes("go")


def map_row(topic: models.Topic, nodes: list[models.Node]) -> dict[str, Any]:
    """A topic as a row of the map; the names of columns are ours."""
    row: dict[str, Any] = {"topic": topic.name, "topic_href": topic_address(topic.name)}
    for node in nodes:
        held = [each for each in topic.partitions if node.node_id in each.replicas]
        leads = [each.partition for each in held if each.leader == node.node_id]
        late = [each.partition for each in held if node.node_id not in each.in_sync]
        follows = [each.partition for each in held if each.partition not in leads and each.partition not in late]
        parts = [
            f"{name} {showing.partitions(numbers)}"
            for name, numbers in (("leads", leads), ("follows", follows), ("not in sync", late))
            if numbers
        ]
        row[f"node_{node.node_id}"] = " · ".join(parts) or "-"
        row[f"node_{node.node_id}_class"] = "bad" if late else "" if parts else "soft"
    return row


def register() -> None:
    """Make it known."""
    page("/nodes", "Nodes", show)
