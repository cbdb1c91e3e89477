"""What is counted of the requests of the Kafka protocol, under the names that Kafka's dashboards know, and ours."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from barnabas.runtime.metrics import Labels, Metrics, Number
from barnabas.runtime.request_counts import RequestCounts
from barnabas.wire.error_names import name_of

QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)
MAX_COUNTED: Final = 100
"""The most parts of an answer that are looked at for error codes; one of thousands of partitions is not walked."""

Counts = Callable[[], Mapping[str, RequestCounts]]


def report_requests(metrics: Metrics, counts: Counts, refusals: Counter[tuple[str, int]]) -> None:
    """Name what is counted of requests, by API."""
    metrics.counters(
        "requests_total",
        "Requests of the Kafka protocol, by API.",
        "api",
        lambda: {name: each.requests for name, each in counts().items()},
    )
    metrics.counters(
        "request_bytes_total",
        "Bytes of requests of the Kafka protocol, by API.",
        "api",
        lambda: {name: each.request_bytes for name, each in counts().items()},
    )
    metrics.counters(
        "response_bytes_total",
        "Bytes of answers of the Kafka protocol, by API.",
        "api",
        lambda: {name: each.response_bytes for name, each in counts().items()},
    )
    metrics.histograms(
        "request_seconds",
        "From a request's last byte until its answer is ready, long polls and acknowledgements included.",
        "api",
        lambda: {name: each.seconds for name, each in counts().items() if each.requests},
    )
    metrics.family(
        "kafka_network_requestmetrics_requests_total",
        "Requests of the Kafka protocol, by API.",
        ("request",),
        lambda: (((kafka_name(name),), each.requests) for name, each in counts().items()),
    )
    metrics.family(
        "kafka_network_requestmetrics_errors_total",
        "Errors in answers of the Kafka protocol, by API and error.",
        ("request", "error"),
        lambda: (((kafka_name(api), name_of(code)), count) for (api, code), count in sorted(refusals.items())),
    )
    metrics.family(
        "kafka_network_requestmetrics_totaltimems",
        "How long requests took in milliseconds, since the node started.",
        ("request", "quantile"),
        lambda: _quantiles(counts()),
    )


def _quantiles(counts: Mapping[str, RequestCounts]) -> Iterator[tuple[Labels, Number]]:
    for name, each in counts.items():
        if each.requests:
            for part in QUANTILES:
                yield (kafka_name(name), f"{part:g}"), round(each.seconds.quantile(part) * 1000, 6)


def kafka_name(api: str) -> str:
    """The name of an API as Kafka's metrics have it: `list_offsets` is ListOffsets."""
    return "".join(part.capitalize() for part in api.split("_"))


def count_refusals(refusals: Counter[tuple[str, int]], api: str, values: Mapping[str, Any]) -> None:
    """Count the errors in an answer: its own, and those of its parts, as far as they are few.

    Done for every answer, so it looks for dicts and lists of dicts, which is what handlers make, and at nothing else.
    """
    if code := values.get("error_code"):
        refusals[api, code] += 1
    left = MAX_COUNTED
    fields = [*values.values()]
    for parts in fields:  # which grows meanwhile
        if isinstance(parts, list) and parts and isinstance(parts[0], dict):
            for part in parts[:left]:
                if code := part.get("error_code"):
                    refusals[api, code] += 1
            left -= len(parts)
            if left <= 0:
                return
            for part in parts:
                fields += part.values()
