"""The reference page of all metrics, docs/metrics.md, written from what the parts of a node report."""

from typing import Final

from barnabas.edge.http.exposition import DROPPED, PREFIX, full_name
from barnabas.runtime.metrics import Metric, Metrics

_HEAD: Final = """\
# Metrics

<!-- Written by `make docs` from the code. Do not edit this page: edit src/barnabas/edge/http/metrics_page.py. -->

`barnabas serve` serves them at `http://127.0.0.1:9644/metrics`, in the text format of Prometheus, or in OpenMetrics for
who asks for that. Any other address is `http.listener`; an embedded broker serves none unless it is set. Beside it are
`/healthz`, which answers while the process is alive, and `/readyz`, which says 200 once the node serves and 503 with
the reasons otherwise: a probe that restarts a node should ask the first, since recovering a large log takes a while.

Each node tells what it has and leads; sum or take the maximum over nodes. Names that begin with `kafka_` are those that
dashboards for Kafka know; ours begin with `barnabas_`. Numbers are by topic and by group; those of each partition come
with `/metrics?partitions=1`, or always with `metrics.partitions.enable=true`. An answer has at most
`metrics.max.series` numbers: those with many labels are left out first, and `barnabas_metrics_series_dropped` says how
many. Client ids are no labels: there is no end to them.

The lag of a group is told by the node that coordinates it, measured every 15 seconds. It is the number of records that
the group has yet to read, up to the last stable offset: 0 once everything was read. Markers of transactions, and
records of transactions that were aborted, are no lag, though they have offsets, which Kafka's own tools count; nobody
looks for them further than 16 KiB after the committed offset. `barnabas group describe`, the HTTP API, the console and
pipelines count in the same way. The lag in seconds is the age of the first record that the group has not read, by its
timestamp.

Beyond this machine who reads them has to log in: [who may](http.md#who-may-read-the-metrics).

`deploy/prometheus` has a configuration and alerts, `deploy/grafana/barnabas.json` a dashboard.
"""


def render_page(metrics: Metrics) -> str:
    """The page, as Markdown."""
    plain = [each for each in metrics.all() if not each.is_detail]
    detail = [each for each in metrics.all() if each.is_detail]
    dropped = f"| `{PREFIX}{DROPPED}` | gauge | | Numbers that were left out of this answer. |"
    return "\n".join(
        [
            _HEAD,
            "## Always\n",
            *_table(plain),
            dropped,
            "\n## With `?partitions=1`\n",
            *_table(detail),
            "",
        ]
    )


def _table(metrics: list[Metric]) -> list[str]:
    rows = [
        f"| `{full_name(each.name)}` | {each.kind.value} | {', '.join(each.label_names)} | {each.doc} |"
        for each in sorted(metrics, key=lambda each: full_name(each.name))
    ]
    return ["| name | kind | labels | meaning |", "|---|---|---|---|", *rows]
