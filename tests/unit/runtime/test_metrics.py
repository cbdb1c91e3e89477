import pytest

from barnabas.runtime.metrics import Kind, Metrics


def test_a_metric_is_read_when_it_is_asked_for() -> None:
    metrics, count = Metrics(), [0]
    metrics.counter("requests_total", "Requests.", lambda: count[0])
    count[0] = 3
    (sample,) = metrics.read()
    assert (sample.metric.name, sample.metric.kind, sample.label, sample.value) == (
        "requests_total",
        Kind.COUNTER,
        "",
        3,
    )
    count[0] = 4
    assert [sample.value for sample in metrics.read()] == [4]


def test_metrics_are_read_in_the_order_of_their_names() -> None:
    metrics = Metrics()
    metrics.gauge("sessions", "Sessions.", lambda: 2)
    metrics.gauge("connections_open", "Connections.", lambda: 1)
    assert [(sample.metric.name, sample.value) for sample in metrics.read()] == [
        ("connections_open", 1),
        ("sessions", 2),
    ]


def test_a_metric_may_have_a_number_for_each_value_of_a_label() -> None:
    metrics = Metrics()
    metrics.counters("requests_total", "Requests.", "api", lambda: {"fetch": 1, "produce": 2})
    samples = list(metrics.read())
    assert [(sample.label, sample.value) for sample in samples] == [("fetch", 1), ("produce", 2)]
    assert {sample.metric.label_name for sample in samples} == {"api"}


@pytest.mark.parametrize("name", ["requests", "Requests_total", "requests-total", "_requests_total"])
def test_a_counter_is_named_as_one(name: str) -> None:
    with pytest.raises(AssertionError):
        Metrics().counter(name, "Requests.", lambda: 0)


def test_a_gauge_is_not_named_as_a_counter() -> None:
    with pytest.raises(AssertionError):
        Metrics().gauge("requests_total", "Requests.", lambda: 0)


def test_two_metrics_do_not_share_a_name() -> None:
    metrics = Metrics()
    metrics.gauge("sessions", "Sessions.", lambda: 0)
    with pytest.raises(AssertionError, match="two metrics"):
        metrics.gauge("sessions", "Sessions.", lambda: 0)
