"""docs/spark.md: its examples run as they stand there, and its options are those that the code documents."""

import re
from pathlib import Path
from typing import Any

import pytest

import barnabas.spark
from barnabas.testing.embedded import EmbeddedBroker

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.sink import options as sink_options
from barnabas.spark.source import options as source_options

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_examples_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.setattr(barnabas.spark, "session", lambda _: spark)
    names: dict[str, Any] = {}
    with EmbeddedBroker() as broker:
        for topic in ("orders", "big-orders", "copies"):
            broker.bus.create_topic(topic, partitions=2)
        for number, value in enumerate((b"pen", b"book", b"lamp")):
            broker.bus.send("orders", value, key=str(number)).result(60)
        for example in examples:
            code = example.replace("127.0.0.1:9092", broker.bootstrap).replace("/tmp/", f"{tmp_path}/")
            exec(code, names)
        big = {bytes(message.value or b"") for message in broker.bus.consume("big-orders", until_end=True)}
    spark.catalog.dropTempView("orders")

    assert big == {b"book", b"lamp"}
    first, *table, last = capsys.readouterr().out.splitlines()
    assert first == "3 ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']"
    assert sum(int(row.split("|")[2]) for row in table if re.match(r"\|\s+\d", row)) == 3
    assert last == "3", "all of them were copied"


@pytest.mark.parametrize("module", [source_options, sink_options])
def test_the_options_are_those_of_the_code(module: Any) -> None:
    (table,) = re.findall(r"(?:^\|.*\n)+", module.__doc__, re.MULTILINE)

    assert table in PAGE
