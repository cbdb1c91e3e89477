"""The results of the demo: the lines of its closing table, or the check that failed."""

from dataclasses import dataclass, field

from rich.table import Table

from barnabas.core.errors import BarnabasError


class DemoFailed(BarnabasError):
    """A check of the demo failed."""


@dataclass(slots=True)
class Findings:
    """The lines of the closing table."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, result: str) -> None:
        self.rows.append((what, result))

    def table(self, title: str) -> Table:
        table = Table("what", "result", title=title)
        for row in self.rows:
            table.add_row(*row)
        return table
