"""What is counted of the requests of the Kafka protocol, under the names that Kafka's dashboards know, and ours."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

from barnabas.runtime.metrics import Labels, Metrics, Number
from barnabas.runtime.request_counts import RequestCounts
from barnabas.wire.apis import Api
from barnabas.wire.error_names import name_of
from barnabas.wire.schema import is_struct, take_apart
from barnabas.wire.schemas import response_schema

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


def count_refusals(refusals: Counter[tuple[str, int]], api: Api, version: int, values: Mapping[str, Any]) -> None:
    """Count the errors in an answer: its own, and those of its parts, as far as they are few.

    Done for every answer, so only the fields are looked at that may have some, by the schema of the answer.
    """
    if code := values.get("error_code"):
        refusals[api.name, code] += 1
    parts_of = _arrays_with_codes(response_schema(api.key, version))
    if parts_of:
        _count_parts(refusals, api.name, values, parts_of, MAX_COUNTED)


def _count_parts(
    refusals: Counter[tuple[str, int]], api: str, values: Mapping[str, Any], arrays: "_Arrays", left: int
) -> int:
    """Count the errors in the arrays of a part of an answer; returns how many more parts may be looked at."""
    for name, inner in arrays:
        for part in values.get(name) or ():
            if left <= 0:
                return 0
            left -= 1
            if code := part.get("error_code"):
                refusals[api, code] += 1
            if inner:
                left = _count_parts(refusals, api, part, inner, left)
    return left


_Arrays = tuple[tuple[str, Any], ...]  # the names of arrays of entities, and those in each of them


@cache
def _arrays_with_codes(schema: Any) -> _Arrays:
    """The arrays of an entity whose parts have error codes, or have parts that do."""
    found: list[tuple[str, Any]] = []
    for field in fields(schema):
        kind, _, is_array = take_apart(field.type)
        if is_array and is_struct(kind):
            inner = _arrays_with_codes(kind)
            if inner or any(each.name == "error_code" for each in fields(kind)):
                found.append((field.name, inner))
    return tuple(found)
