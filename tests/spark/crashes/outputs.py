"""What readers see of each output, and whether that is the input: each record once, or the newest of each key.

None of the readers is ours, except for the topic's.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from barnabas.client import Bus

Row: TypeAlias = tuple[str, int]
OUTPUT_TOPIC: Final = "output"
ICEBERG_TABLE: Final = "crashes.rows"


class Outputs:
    """The outputs of the pipeline, by the name of the sink."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._readers: dict[str, Callable[[], list[Row]]] = {
            "topic": self._read_topic,
            "state": self._read_topic,
            "delta": lambda: self._read_delta("delta"),
            "merge": lambda: self._read_delta("merge"),
            "iceberg": self._read_iceberg,
            "parquet": self._read_parquet,
        }

    def lacking(self, sent: list[Row], names: Iterable[str]) -> dict[str, str]:
        """What the outputs do not have yet. More than was sent is wrong for ever, and raises."""
        missing, surplus = {}, {}
        for name in names:
            wanted = list(dict(sent).items()) if name == "merge" else sent
            rows = self._readers[name]()
            missing[name] = Counter(wanted) - Counter(rows)
            # An older row of a key is only late; a second row of a key never is right.
            surplus[name] = _counted(name, rows) - _counted(name, wanted)
        wrong = {
            name: f"has what was not sent, or has it twice: {dict(each)}" for name, each in surplus.items() if each
        }
        assert not wrong, wrong
        return {name: f"lacks {sorted(each)}" for name, each in missing.items() if each}

    def check_marks(self) -> None:
        """Each batch of each query was added by one commit, also where a second would have changed nothing."""
        marks = Counter(mark for name in ("delta", "merge") for mark in self._marks_of(self._directory / name))
        assert not {mark: count for mark, count in marks.items() if count > 1}

    def _read_topic(self) -> list[Row]:
        with Bus(self._bootstrap, config={"reconnect.backoff.max.ms": "500"}) as bus:
            found = bus.consume(OUTPUT_TOPIC, until_end=True)
            return [((record.key or b"").decode(), int(record.value or b"")) for record in found]

    def _read_delta(self, name: str) -> list[Row]:
        try:
            table = DeltaTable(str(self._directory / name))
        except TableNotFoundError:
            return []
        return _rows(QueryBuilder().register("t", table).execute("SELECT name, number FROM t"))

    def _read_iceberg(self) -> list[Row]:
        warehouse = self._directory / "iceberg"
        if not (warehouse / "catalog.db").exists():
            return []
        catalog = load_catalog("barnabas", type="sql", uri=f"sqlite:///{warehouse / 'catalog.db'}")
        try:
            return _rows(catalog.load_table(ICEBERG_TABLE).scan().to_arrow())
        except NoSuchTableError:
            return []

    def _read_parquet(self) -> list[Row]:
        """By the log of Spark's sink, as readers do that know it: other files are of batches that were given up."""
        paths = set()
        for log in (self._directory / "parquet" / "_spark_metadata").glob("[0-9]*"):
            paths |= {json.loads(line)["path"].removeprefix("file://") for line in log.read_text().splitlines()[1:]}
        return [row for path in sorted(paths) for row in _rows(pq.ParquetFile(path).read())]

    def _marks_of(self, table: Path) -> Iterable[tuple[str, int]]:
        for commit in sorted((table / "_delta_log").glob("*.json")):
            for line in commit.read_text().splitlines():
                mark = json.loads(line).get("txn")
                if mark is not None:
                    yield mark["appId"], mark["version"]


def _counted(name: str, rows: Iterable[Row]) -> Counter[str]:
    return Counter(key if name == "merge" else f"{key}: {number}" for key, number in rows)


def _rows(table: Any) -> list[Row]:
    columns = pa.table(table).to_pydict()
    return list(zip(columns["name"], columns["number"], strict=True))
