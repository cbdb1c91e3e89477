"""Overview: is the cluster well, and what does it do."""

from nicegui import ui

from barnabas.console import models, showing, widgets
from barnabas.console.view import View, page


async def show(view: View) -> None:
    """The page."""
    cluster = view.cluster
    assert cluster is not None
    with ui.row().classes("w-full items-center justify-between"):
        widgets.title("Overview")
        ui.label(f"cluster {cluster.cluster_id or '?'} · version {cluster.version} · {cluster.principal}").classes(
            "soft"
        )
    health = _Health()
    health.show(cluster)
    if cluster.counts.topics == 0:
        widgets.empty(
            "topic",
            "There are no topics yet",
            "Create one under Topics, or on the command line, and write the first message:",
            command="barnabas topic create hello\necho world | barnabas produce hello",
        )
    with ui.row().classes("w-full gap-4"):
        with ui.column().classes("card").style("flex: 1 1 380px; min-width: 0"):
            widgets.heading(f"Throughput{view.whose(cluster)}, last hour")
            traffic = widgets.chart(("in", "out"), unit="bytes")
        with ui.column().classes("card").style("flex: 1 1 380px; min-width: 0"):
            widgets.heading(f"Latency{view.whose(cluster)}, 99th percentile")
            latency = widgets.chart(("produce", "fetch"), unit="seconds")
    widgets.heading("Nodes")
    nodes = widgets.table(NODE_COLUMNS, [], key="node")

    async def refresh() -> None:
        found = await view.shared("/cluster", models.Cluster)
        health.show(found)
        nodes.rows = [node_row(each) for each in await view.shared("/nodes", list[models.Node])]
        nodes.update()
        series = await view.history("/history/node")
        _fill(view, traffic, series, ("bytes_in_per_second", "bytes_out_per_second"))
        _fill(view, latency, series, ("produce_p99_seconds", "fetch_p99_seconds"))

    await refresh()
    view.every(refresh)


def _fill(view: View, chart: ui.echart, series: models.Series, names: tuple[str, ...]) -> None:
    columns = [series.values.get(name, []) for name in names]
    widgets.show_points(chart, columns, until_ms=series.until_ms, step_s=series.step_s, times=view.times)


class _Health:
    """The numbers on top."""

    def __init__(self) -> None:
        with ui.row().classes("w-full gap-2 stretch"):
            self._well = widgets.number("Health", "")
            self._nodes = widgets.number("Nodes", "")
            self._controller = widgets.number("Controller", "")
            self._topics = widgets.number("Topics", "")
            self._partitions = widgets.number("Partitions", "")
            self._lacking = widgets.number("Under-replicated", "")
            self._offline = widgets.number("Offline", "")

    def show(self, cluster: models.Cluster) -> None:
        """Show what is now."""
        counts = cluster.counts
        text, look = health_of(cluster)
        self._well.set_text(text)
        self._well.classes(replace=f"number {look}")
        self._nodes.set_text(showing.count(counts.nodes))
        self._controller.set_text("none" if cluster.controller_id < 0 else f"node {cluster.controller_id}")
        self._topics.set_text(showing.count(counts.topics))
        self._partitions.set_text(showing.count(counts.partitions))
        self._lacking.set_text(showing.count(counts.under_replicated))
        self._lacking.classes(replace=f"number {'warn' if counts.under_replicated else ''}")
        self._offline.set_text(showing.count(counts.offline))
        self._offline.classes(replace=f"number {'bad' if counts.offline else ''}")


def health_of(cluster: models.Cluster) -> tuple[str, str]:
    """How the cluster is in a word, and how that looks."""
    counts = cluster.counts
    if cluster.controller_id < 0:
        return "no controller", "bad"
    if counts.offline:
        return "partitions offline", "bad"
    if counts.under_min_isr:
        return "under min ISR", "bad"
    if counts.under_replicated:
        return "catching up", "warn"
    return "good", "good"


NODE_COLUMNS = [
    widgets.column("node", "Node"),
    widgets.column("state", "State"),
    widgets.column("role", "Role"),
    widgets.column("address", "Address"),
    widgets.column("rack", "Rack"),
    widgets.column("leads", "Leads", is_right=True),
    widgets.column("replicas", "Replicas", is_right=True),
    widgets.column("size", "Data", is_right=True),
    widgets.column("disk", "Disk free", is_right=True),
]


def node_row(node: models.Node) -> dict[str, str]:
    """A node as a row."""
    roles = [name for name, holds in (("controller", node.is_controller), ("voter", node.is_voter)) if holds]
    free = node.disk_free_bytes / node.disk_total_bytes if node.disk_total_bytes > 0 else 1
    return {
        "node": str(node.node_id),
        "state": node.error or node.state,
        "state_class": "good" if node.state == "active" and not node.error else "bad",
        "role": ", ".join(roles) or "broker",
        "address": f"{node.host}:{node.port}",
        "rack": node.rack or "-",
        "leads": showing.count(node.partitions_led),
        "replicas": showing.count(node.replicas),
        "size": showing.size(node.size_bytes),
        "disk": f"{showing.size(node.disk_free_bytes)} ({free:.0%})" if node.disk_total_bytes > 0 else "unknown",
        "disk_class": "bad" if free < 0.15 else "",
    }


def register() -> None:
    """Make it known."""
    page("/", "Overview", show)
