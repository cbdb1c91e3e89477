"""kcat, the Kafka user's pocket knife, where it is installed."""

import json
import shutil
import subprocess

import pytest

TIMEOUT_S = 20
KCAT = shutil.which("kcat") or shutil.which("kafkacat")

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not on the PATH")


def kcat(*arguments: str, stdin: str = "") -> str:
    assert KCAT is not None
    ran = subprocess.run(
        [KCAT, *arguments], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_kcat_lists_produces_and_consumes(bootstrap: str, topic: str) -> None:
    listed = json.loads(kcat("-b", bootstrap, "-L", "-J", "-t", topic))
    assert listed["topics"][0]["topic"] == topic
    kcat("-b", bootstrap, "-P", "-t", topic, "-K", ":", "-z", "snappy", "-H", "of=kcat", stdin="a:1\nb:2\nc:3\n")
    text = kcat("-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%k=%s@%o %h\\n")
    assert text.splitlines() == ["a=1@0 of=kcat", "b=2@1 of=kcat", "c=3@2 of=kcat"]
    text = kcat("-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q")
    assert text.splitlines() == ["3"]


def test_kcat_asks_for_offsets_by_time(bootstrap: str, topic: str) -> None:
    kcat("-b", bootstrap, "-P", "-t", topic, stdin="one\ntwo\n")
    assert f"{topic} [0] offset 0" in kcat("-b", bootstrap, "-Q", "-t", f"{topic}:0:1000")
    assert f"{topic} [0] offset 2" in kcat("-b", bootstrap, "-Q", "-t", f"{topic}:0:-1")
