"""``python -m bench [suite ...] [--quick]``: run the suites and print one table."""

import argparse
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table

from bench import (
    access,
    asynchronous,
    attacks,
    broker,
    broker_start,
    consuming,
    edges,
    groups,
    grpc_edge,
    processes,
    quorum,
    record_checks,
    records,
    replicas,
    scrub,
    spark,
    storage_append,
    storage_compaction,
    storage_open,
    storage_read,
    transactions,
    zero_copy,
)
from bench.measure import Row

SUITES: dict[str, Callable[..., Iterator[Row]]] = {
    "append": storage_append.rows,
    "read": storage_read.rows,
    "open": storage_open.rows,
    "compaction": storage_compaction.rows,
    "records": records.rows,
    "broker": broker.rows,
    "consume": consuming.rows,
    "checks": record_checks.rows,
    "scrub": scrub.rows,
    "start": broker_start.rows,
    "aio": asynchronous.rows,
    "groups": groups.rows,
    "access": access.rows,
    "grpc": grpc_edge.rows,
    "transactions": transactions.rows,
    "quorum": quorum.rows,
    "replicas": replicas.rows,
    "processes": processes.rows,
    "attacks": attacks.rows,
    "edges": edges.rows,
    "sendfile": zero_copy.rows,
    "spark": spark.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=", ".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs, not for figures")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    console = Console(width=None if sys.stdout.isatty() else 132)
    table = Table("measured", "ours", "against", "ratio", "target")
    is_met = True
    for name in arguments.suites or SUITES:
        with console.status(f"measuring {name}"):
            for row in SUITES[name](quick=arguments.quick):
                table.add_row(*_cells(row))
                is_met &= row.is_met
        table.add_section()
    console.print(table)
    return 0 if is_met else 1


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    target = "" if row.target is None else f"{'met' if row.is_met else 'MISSED'} >= {row.target:.2f}"
    return row.name, row.ours, row.limit, ratio, target


if __name__ == "__main__":
    sys.exit(main())
