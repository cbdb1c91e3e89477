"""What docs/grpc.md and examples/grpc show works as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

import barnabas
from barnabas.v1 import bus_pb2

ROOT = Path(__file__).parents[3]
SAYS = [["b'paid'", "100"], ["0"]]


@pytest.mark.parametrize("number", range(len(SAYS)))
def test_the_examples_of_the_page_run(number: int) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/grpc.md").read_text(), re.DOTALL)
    assert len(examples) == len(SAYS)
    done = subprocess.run([sys.executable, "-c", examples[number]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == SAYS[number]


def test_the_example_in_python_runs() -> None:
    with barnabas.embedded({"grpc.listener": "127.0.0.1:0"}) as broker:
        command = [sys.executable, str(ROOT / "examples/grpc/orders.py"), broker.grpc]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "written 1000, read 1000\n"


def test_every_field_that_the_commands_of_the_page_name_exists() -> None:
    page = (ROOT / "docs/grpc.md").read_text().replace("\\\n", "")
    page = page.replace("'$(printf customer-1 | base64)'", "Y3VzdG9tZXItMQ==")
    commands = re.findall(r"-d '(\{.*?\})'\s+127\.0\.0\.1:9095 barnabas\.v1\.BusService/(\w+)", page)
    assert len(commands) == 4
    for data, method in commands:
        json_format.Parse(data, getattr(bus_pb2, f"{method}Request")())
