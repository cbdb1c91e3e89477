"""What the README shows works as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    code = example.replace("/tmp/barnabas-example", str(tmp_path / "data"))
    assert code != example

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    record, found = done.stdout.splitlines()
    assert record == "Record(offset=0, timestamp=1700000000000, key=b'k', value=b'v', headers=())"
    assert found == "TimedOffset(timestamp=1700000000000, offset=0, leader_epoch=0)"


def test_the_demo_adds_up_and_says_so() -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "demo", "--orders", "20000", "--seed", "3"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert re.search(r"lost of those\s+│ 0", done.stdout)
    assert "20,000 orders, each as it was written" in done.stdout


def test_the_demo_leaves_what_is_there_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "barnabas.cli.main", "demo", "--orders", "1000", "--keep", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("barnabas: ")
    assert "exists already" in done.stderr
    assert "Traceback" not in done.stderr
