"""The text of /metrics: its format, its limits, and names that try to leave their quotes."""

import asyncio
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from barnabas.edge.http.exposition import Exposition, Form
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.metrics import Metrics

EVIL = 'a"} 1\nfake_total 7 # \\ <script>'


def _metrics() -> Metrics:
    metrics, times = Metrics(), Histogram((0.1, 1.0))
    times.observe(0.05)
    times.observe(5.0)
    metrics.counter("commits_total", "Commits.", lambda: 3)
    metrics.gauge("sessions", 'Sessions, "open" ones.', lambda: 2.5)
    metrics.histogram("flush_seconds", "Syncs.", lambda: times)
    metrics.gauges("kafka_consumergroup_members", "Members.", "consumergroup", lambda: {EVIL: 1, "plain": 2})
    metrics.family("log_size", "Sizes.", ("topic", "partition"), lambda: [(("t", "0"), 7)], is_detail=True)
    return metrics


def _text(form: Form, *, max_series: int = 1000) -> str:
    return asyncio.run(Exposition(_metrics(), max_series=max_series).text(form)).decode()


def test_prometheus_reads_what_is_written() -> None:
    found = {each.name: each for each in parse(_text(Form()))}
    assert found["barnabas_commits"].samples[0].value == 3
    assert found["barnabas_sessions"].samples[0].value == 2.5
    buckets = [
        (each.labels["le"], each.value) for each in found["barnabas_flush_seconds"].samples if "le" in each.labels
    ]
    assert buckets == [("0.1", 1), ("1", 1), ("+Inf", 2)]


def test_openmetrics_is_written_for_who_asks_for_it() -> None:
    text = _text(Form(is_open=True))
    assert text.endswith("# EOF\n")
    families: Iterable[Metric] = open_metrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    assert {each.name for each in families} >= {
        "barnabas_commits",
        "barnabas_sessions",
        "barnabas_flush_seconds",
    }


def test_a_name_cannot_leave_its_quotes() -> None:
    text = _text(Form())
    assert "\nfake_total" not in text
    members = next(each for each in parse(text) if each.name == "kafka_consumergroup_members")
    assert {each.labels["consumergroup"] for each in members.samples} == {EVIL, "plain"}


def test_partitions_are_left_out_unless_asked_for() -> None:
    assert "log_size" not in _text(Form())
    assert 'barnabas_log_size{topic="t",partition="0"} 7' in _text(Form(has_partitions=True))


def test_what_is_beyond_the_limit_is_left_out_and_said() -> None:
    text = _text(Form(has_partitions=True), max_series=7)
    dropped = next(each for each in parse(text) if each.name == "barnabas_metrics_series_dropped")
    assert dropped.samples[0].value == 3
    assert "barnabas_commits_total 3" in text


def test_scrapes_at_the_same_time_share_one_text() -> None:
    async def scrape() -> None:
        reads = [0]

        def read() -> int:
            reads[0] += 1
            return reads[0]

        metrics = Metrics()
        metrics.gauge("reads", "Reads.", read)
        exposition = Exposition(metrics, max_series=10)
        first, second = await asyncio.gather(exposition.text(Form()), exposition.text(Form()))
        assert first == second == await exposition.text(Form())
        assert reads == [1]

    asyncio.run(scrape())
