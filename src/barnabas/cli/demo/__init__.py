"""``barnabas demo``: a broker at work, three nodes of which one is killed, then a pipeline on Spark; each ends with a
table of what was checked.

The exit code is 1 if a check fails.
"""

import random
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from barnabas.cli.demo import one_broker
from barnabas.cli.demo.findings import DemoFailed, Findings
from barnabas.cli.demo.process import BrokerProcess
from barnabas.client import Bus

NEEDED = ("pyspark", "deltalake")
CLUSTER_SHARE = 4  # of the orders, one part goes to the cluster: three nodes share this machine


def run(
    *, orders: int, seed: int, seconds: float, rate: int, keep: Path | None, with_cluster: bool, with_pipeline: bool
) -> None:
    """Run the demo and print its table; raise `DemoFailed` if a check fails."""
    console = Console()
    if keep is not None and keep.exists():
        raise DemoFailed(f"{keep} already exists; give a directory that does not")
    directory = keep if keep is not None else Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
    try:
        _act(console, directory, orders=orders, seed=seed)
        if with_cluster:
            from barnabas.cli.demo import three_nodes

            three_nodes.show(console, directory / "cluster", orders=max(orders // CLUSTER_SHARE, 1000), seed=seed)
        missing = [name for name in NEEDED if find_spec(name) is None]
        if with_pipeline and missing:
            console.print(f"The pipeline needs {' and '.join(missing)}: pip install 'barnabas[spark,tables]'")
        elif with_pipeline:
            from barnabas.cli.demo.orders_pipeline import show

            show(console, directory / "pipeline", seconds=seconds, rate=rate, seed=seed)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    console.print("To look at a cluster in a browser: barnabas cluster up --console")
    if keep is not None:
        console.print(f"The data is in {keep}: barnabas serve --data-dir {keep / 'broker'}")
        if with_cluster:
            console.print(f"That of the three nodes: barnabas cluster start --dir {keep / 'cluster'}")


def _act(console: Console, directory: Path, *, orders: int, seed: int) -> None:
    findings = Findings()
    broker = BrokerProcess(directory / "broker")
    try:
        findings.add("broker started, exec to ready", f"{broker.start() * 1000:,.0f} ms")
        with Bus(broker.bootstrap) as bus:
            one_broker.show(console, bus, broker, orders, random.Random(seed), findings)
    finally:
        broker.stop()
    console.print(findings.table("Barnabas: one broker, from the first record to the last"))
