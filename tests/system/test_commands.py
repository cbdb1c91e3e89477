"""The commands of a client as processes: how they end when they are told to, and what they do not load."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from barnabas.testing.embedded import EmbeddedBroker

BARNABAS = [sys.executable, "-m", "barnabas.cli.main"]
WAIT_S = 60
# None of these is needed to speak to a broker.
NEEDLESS = (
    "barnabas.node",
    "barnabas.runtime",
    "barnabas.spark",
    "barnabas.testing",
    "hypothesis",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "pytest",
    "starlette",
    "uvloop",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.bus.create_topic("orders")
        broker.bus.send("orders", b"first").result(60)
        yield broker


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    return broker.bus.create_topic(request.node.name.translate({ord("["): "-", ord("]"): None})[-100:]).name


def start(broker: EmbeddedBroker, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*BARNABAS, *arguments],
        env={**os.environ, "BARNABAS_BOOTSTRAP": broker.bootstrap},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_first(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def end_of(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_produce_that_is_interrupted_says_how_many_records_were_sent(
    broker: EmbeddedBroker, topic: str, number: signal.Signals, code: int
) -> None:
    with start(broker, "produce", topic) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nthree\n")
        process.stdin.flush()
        assert len(list(broker.bus.consume(topic, max_records=3))) == 3

        process.send_signal(number)

        assert end_of(process) == (code, "", f"barnabas: interrupted: 3 records sent to {topic}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [[], ["--group", "billing", "--from-beginning"]])
def test_consume_ends_well_when_it_is_interrupted(
    broker: EmbeddedBroker, topic: str, number: signal.Signals, options: Sequence[str]
) -> None:
    broker.bus.send(topic, b"one").result(60)
    with start(broker, "consume", topic, *(options or ["--from-beginning"])) as process:
        assert read_first(process) == b"one\n"

        process.send_signal(number)

        assert end_of(process) == (0, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["topic", "list", "--json"],
        ["topic", "describe", "orders"],
        ["group", "list"],
        ["get", "orders", "0", "0"],
        ["consume", "orders", "--until-end"],
        ["pipeline", "schema"],
    ],
)
def test_a_reader_who_has_had_enough_is_no_failure(broker: EmbeddedBroker, arguments: Sequence[str]) -> None:
    with start(broker, *arguments) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        (["topic", "list"], (*NEEDLESS, "kio", "rich")),
        (["topic", "describe", "orders"], (*NEEDLESS, "kio", "rich")),
        (["group", "list"], (*NEEDLESS, "rich")),  # share groups are listed over a connection of our own
        (["get", "orders", "0", "0"], (*NEEDLESS, "kio", "rich")),
        (["produce", "orders"], (*NEEDLESS, "kio", "rich")),
        (["consume", "orders", "--until-end"], (*NEEDLESS, "kio", "rich")),
        (["txn", "list"], NEEDLESS),
        (["pipeline", "list"], tuple(set(NEEDLESS) - {"barnabas.spark"})),
        (["--help"], (*NEEDLESS, "kio", "confluent_kafka", "asyncio")),
    ],
)
def test_a_command_loads_only_what_it_needs(
    broker: EmbeddedBroker, arguments: Sequence[str], needless: Sequence[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *BARNABAS[1:], *arguments],
        env={**os.environ, "BARNABAS_BOOTSTRAP": broker.bootstrap},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert "barnabas.cli.topic" in loaded
    assert [name for name in needless if name in loaded] == []


INTERRUPT_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from barnabas.cli.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["barnabas.cli.main", "typer", "barnabas.cli.txn"])
def test_a_command_that_is_interrupted_while_it_loads_shows_no_traceback(name: str) -> None:
    program = INTERRUPT_AT.format(name=name)
    ended = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, timeout=WAIT_S, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
