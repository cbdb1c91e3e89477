"""What a node has loaded when it says that it is ready: no more than a plain one needs, so that it is ready soon."""

import subprocess
import sys
from pathlib import Path

import pytest

WAIT_S = 60
MOST_OF_OURS = 345
"""Modules of ours. More make every start slower: have one that a plain node does not need loaded by who needs it."""

READY = """
import sys
from barnabas.cli import serve
from barnabas.cli.entry import main

def say_ready(node):
    print(*sorted(sys.modules))
    node.stop()

serve._say_ready = say_ready
main()
"""

NEEDLESS = (
    # other packages, and what of the standard library takes long
    *("typer", "rich", "cryptography", "joserfc", "starlette", "uvicorn", "grpc", "google", "nicegui", "httpx"),
    *("prometheus_client", "re2", "numpy", "numba", "pyarrow", "pyspark", "confluent_kafka", "hypothesis"),
    *("importlib.metadata", "tomllib", "difflib", "fractions", "tempfile", "http", "email", "urllib.request"),
    # other commands, clients and edges
    *("barnabas.cli.main", "barnabas.client", "barnabas.console", "barnabas.spark", "barnabas.testing"),
    *("barnabas.edge.grpc", "barnabas.edge.http.app", "barnabas.edge.http.context", "barnabas.edge.http.routes"),
    *("barnabas.edge.kafka.messages", "barnabas.edge.kafka.authenticating", "barnabas.services.history"),
    # security
    *("barnabas.runtime.tls", "barnabas.runtime.tls_listener", "barnabas.runtime.token_keys"),
    *("barnabas.services.authentication", "barnabas.services.acls", "barnabas.services.acl_authorizer"),
    *("barnabas.core.access.bearer", "barnabas.core.access.rules", "barnabas.core.access.scram"),
    # other nodes
    *("barnabas.node.neighbours", "barnabas.node.replicas", "barnabas.runtime.peers", "barnabas.runtime.repairing"),
    *("barnabas.runtime.raft_driver.peers", "barnabas.runtime.replicating.fetcher", "barnabas.services.in_sync"),
    # groups, transactions and logs that are not there yet
    *("barnabas.core.groups.classic", "barnabas.core.groups.consumer", "barnabas.core.groups.share"),
    *("barnabas.core.groups.offsets", "barnabas.core.transactions", "barnabas.runtime.group_coordinator"),
    *("barnabas.runtime.share_coordinator", "barnabas.runtime.transaction_coordinator"),
    *("barnabas.storage.compaction", "barnabas.storage.mending", "barnabas.storage.repair"),
    "barnabas.services.formatting",
)
HANDLERS = "barnabas.edge.kafka.handlers"
LOADED_HANDLERS = ["api_versions", "outcome"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    directory: Path = tmp_path_factory.mktemp("node") / "data"
    options = ["--data-dir", str(directory), "--listen", "127.0.0.1:0", "--set", "http.listener=127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-c", READY, "serve", *options], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    return frozenset(done.stdout.split())


def test_a_node_that_is_ready_has_loaded_nothing_that_it_may_never_need(loaded: frozenset[str]) -> None:
    found = [name for name in sorted(loaded) if any(name == each or name.startswith(f"{each}.") for each in NEEDLESS)]

    assert "barnabas.node.node" in loaded
    assert found == []


def test_a_node_that_is_ready_has_loaded_no_handler_but_that_of_every_connection(loaded: frozenset[str]) -> None:
    found = [name.removeprefix(f"{HANDLERS}.") for name in sorted(loaded) if name.startswith(f"{HANDLERS}.")]

    assert found == LOADED_HANDLERS


def test_a_node_that_is_ready_has_loaded_few_modules(loaded: frozenset[str]) -> None:
    ours = [name for name in loaded if name.partition(".")[0] == "barnabas"]

    assert len(ours) <= MOST_OF_OURS
