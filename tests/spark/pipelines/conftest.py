"""What the tests of pipelines share: records to send, and running a pipeline up to its end."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from barnabas.client import Bus, Message

SendJson: TypeAlias = Callable[..., None]
ReadAll: TypeAlias = Callable[[str], "list[Message]"]
ReadTable: TypeAlias = Callable[[Path], list[dict[str, Any]]]


@pytest.fixture
def send_json(client: "Bus") -> SendJson:
    """Send rows as JSON; text goes as it is. The key is a field of the row if one is named."""

    def send(topic: str, rows: Iterable[dict[str, Any] | str], *, key: str | None = None, **how: Any) -> None:
        sent = []
        for row in rows:
            value = row if isinstance(row, str) else json.dumps(row)
            row_key = str(row[key]) if key is not None and isinstance(row, dict) else None
            sent.append(client.send(topic, value, key=row_key, **how))
        for each in sent:
            each.result(60)

    return send


@pytest.fixture
def read_all(client: "Bus") -> ReadAll:
    return lambda topic: list(client.consume(topic, until_end=True))


@pytest.fixture
def read_table() -> ReadTable:
    """The rows of a Delta table, by a reader that is not ours."""

    def read(path: Path) -> list[dict[str, Any]]:
        return rows_of_delta(str(path))

    return read


def rows_of_delta(path: str) -> list[dict[str, Any]]:
    """By delta-rs's own engine: after its `to_pyarrow_table` a process now and then aborts when it ends."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415

    found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows
