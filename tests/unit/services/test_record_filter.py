import pytest

from barnabas.core.errors import BarnabasError
from barnabas.core.records.record import Record
from barnabas.services.record_filter import parse_filters, passing

ORDER = Record(
    7, 1000, b"customer-1", b'{"status": "paid", "sum": 12.5, "lines": [{"sku": "a"}], "x": null}', (("h", b"1"),)
)
EMPTY = Record(8, 2000, None, None)


def passes(text: str, record: Record = ORDER, partition: int = 3) -> bool:
    return passing(parse_filters([text]))(record, partition)


@pytest.mark.parametrize(
    "text",
    [
        "value.status:eq:paid",
        "value.sum:gt:12",
        "value.sum:eq:12.5",
        "value.lines.0.sku:eq:a",
        "value.x:eq:null",
        "value.none:missing:",
        "value.none:ne:anything",
        "value:contains:paid",
        "key:starts:customer",
        "key:matches:[0-9]$",
        "header.h:eq:1",
        "header.other:missing:",
        "offset:le:7",
        "timestamp:ge:1000",
        "partition:eq:3",
    ],
)
def test_a_record_passes(text: str) -> None:
    assert passes(text)


@pytest.mark.parametrize(
    "text", ["value.status:eq:open", "key:exists:", "value:contains:x", "value.sum:lt:1", "key:eq:"]
)
def test_a_record_without_key_and_value_does_not(text: str) -> None:
    assert not passes(text, EMPTY)


def test_all_filters_must_hold() -> None:
    both = passing(parse_filters(["value.status:eq:paid", "value.sum:lt:1"]))
    assert not both(ORDER, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "value",
        "value:runs:x",
        "code:eq:1",
        "offset.x:eq:1",
        "header:eq:1",
        "value:gt:x",
        "key:matches:(?=a)",
        "a" * 5000,
    ],
)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(BarnabasError):
        parse_filters([text])


def test_too_many_filters_are_refused() -> None:
    with pytest.raises(BarnabasError):
        parse_filters(["key:exists:"] * 11)
