"""Schemas are loaded when they are first asked for, also by a process that can open nothing more."""

import subprocess
import sys

PROGRAM = """
import os, resource
from barnabas.wire.responses import write_response
from barnabas.wire.schemas import request_schema

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError as error:
    print(error.strerror)
for key, version in ((3, 12), (10, 4), (19, 7)):
    print(request_schema(key, version).__name__, len(write_response(key, version, {})) > 0)
"""


def test_a_schema_is_loaded_without_a_descriptor_left() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.splitlines() == [
        "Too many open files",
        "MetadataRequest True",
        "FindCoordinatorRequest True",
        "CreateTopicsRequest True",
    ], ended.stderr
