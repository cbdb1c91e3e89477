"""What the README shows works as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


SAYS = [
    ["b'first'", "[b'first']"],
    ["2 2", "[b'invoice for book', b'invoice for pen']", "2"],
]


@pytest.mark.parametrize("number", range(len(SAYS)))
def test_the_examples_of_the_readme_run(number: int) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == len(SAYS)

    done = subprocess.run([sys.executable, "-c", examples[number]], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == SAYS[number]


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    (commands,) = re.findall(r"On the command line.*?```sh\n(.*?)```", README.read_text(), re.DOTALL)
    serve, *others = [line.partition("#")[0].strip() for line in commands.splitlines()]
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(tmp_path),
        "BARNABAS_LISTENERS": "PLAINTEXT://127.0.0.1:0",
    }
    with subprocess.Popen(serve.rstrip(" &").split(), stdout=subprocess.PIPE, text=True, env=environ) as broker:
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            assert f"data in {tmp_path}/barnabas" in ready
            del environ["BARNABAS_LISTENERS"]
            environ["BARNABAS_BOOTSTRAP"] = ready.split("ready on ")[1].split()[0]
            outputs = [
                subprocess.run(command, shell=True, capture_output=True, text=True, env=environ, check=False)
                for command in others
            ]
        finally:
            broker.terminate()
    assert [(done.returncode, done.stderr) for done in outputs if done.returncode] == []
    assert len(outputs[2].stdout.splitlines()) == 1000
    assert '"partitions"' in outputs[4].stdout
    assert len(outputs[5].stdout.splitlines()) == 1000
    assert "group billing: empty" in outputs[6].stdout
    assert outputs[7].stdout.startswith("transactional id")


def test_the_demo_adds_up_and_says_so() -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "demo", "--no-pipeline", "--orders", "20000", "--seed", "3"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"lost, duplicated\s+│ 0, 0", done.stdout)) == 2
    assert "every order in its place" in done.stdout
    assert re.search(r"next order acknowledged\s+│ [\d,]+ ms after the kill; node \d leads", done.stdout)
    assert re.search(r"killed node started again, in sync\s+│ node \d, after [\d,]+ ms", done.stdout)


def test_the_demo_leaves_what_is_there_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    command = [
        sys.executable,
        "-m",
        "barnabas.cli.main",
        "demo",
        "--no-pipeline",
        "--orders",
        "1000",
        "--keep",
        str(tmp_path),
    ]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("barnabas: ")
    assert "already exists" in done.stderr
    assert "Traceback" not in done.stderr
