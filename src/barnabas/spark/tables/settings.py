"""What the data source `barnabas-table` is told: options are text, so lists and mappings come as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from typing import Any, Literal, Self

from barnabas.core.errors import InvalidRequest

DELETE_COLUMN = "__delete"


@dataclass(frozen=True, slots=True)
class TableSettings:
    """One table and how it is read or written."""

    format: Literal["delta", "iceberg"]
    path: str
    table: str | None = None
    partition_by: tuple[str, ...] = ()
    evolve: bool = False
    merge_keys: tuple[str, ...] = ()
    merge_order: tuple[str, ...] = ()
    remember_deletions_ms: int = 0
    catalog: dict[str, str] = field(default_factory=dict)
    version: int | None = None
    max_files_per_trigger: int = 64
    checkpoint: str | None = None  # of the query that writes

    @property
    def root(self) -> str:
        """The folder of the table; of Iceberg, within the warehouse."""
        below = "" if self.table is None else f"/{self.table.replace('.', '/')}"
        return f"{self.path.rstrip('/')}{below}"

    def to_options(self) -> dict[str, str]:
        return {"settings": dumps(asdict(self))}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        try:
            given = loads(options["settings"])
        except KeyError:
            raise InvalidRequest("barnabas-table needs 'settings'; see barnabas.spark.tables") from None
        lists = ("partition_by", "merge_keys", "merge_order")
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in given.items()}
        if "checkpointLocation" in options:
            values["checkpoint"] = options["checkpointLocation"]
        return cls(**values)
