"""A checkpoint that is an old copy: every sink refuses it, adds nothing, and says where to go on; so it is."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.spark import Pipeline
from barnabas.spark.pipelines.problems import PipelineFailed
from tests.spark.conftest import MakeTopic
from tests.spark.pipelines.conftest import rows_of_delta

if TYPE_CHECKING:
    from barnabas.client import Bus

pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")
catalogs = pytest.importorskip("pyiceberg.catalog", reason="PyIceberg is not installed")

SINKS = {
    "topic": "type: topic, topic: {topic}.out",
    "delta": "type: delta, path: delta",
    "iceberg": "type: iceberg, warehouse: iceberg, table: old.rows",
}
FILE = """\
name: old
bootstrap: {bootstrap}
sources: [{{name: records, type: topic, topic: {topic}, starting_offsets: '{start}'}}]
steps: [{{name: rows, sql: SELECT string(value) AS value FROM records}}]
sinks: [{{name: sink, {sink}}}]
checkpoint: {checkpoint}
"""


class Rows:
    """A pipeline of a topic into one sink, and what readers see there."""

    def __init__(self, kind: str, spark: Any, client: "Bus", bootstrap: str, topic: str, directory: Path) -> None:
        self._kind, self._spark, self._client, self._topic, self._directory = kind, spark, client, topic, directory
        self._how = {"bootstrap": bootstrap, "topic": topic, "sink": SINKS[kind].format(topic=topic)}
        self.sent: list[str] = []

    def run(self, checkpoint: str, start: str = "earliest") -> None:
        self.sent.append(f"row {len(self.sent)}")
        self._client.send(self._topic, self.sent[-1]).result(60)
        file = self._directory / "old.yaml"
        file.write_text(FILE.format(**self._how, checkpoint=checkpoint, start=start))
        Pipeline.load(file).run(self._spark, once=True)

    def read(self) -> list[str]:
        match self._kind:
            case "topic":
                found = self._client.consume(f"{self._topic}.out", until_end=True)
                return sorted((message.value or b"").decode() for message in found)
            case "delta":
                return sorted(row["value"] for row in rows_of_delta(str(self._directory / "delta")))
            case _:
                uri = f"sqlite:///{self._directory / 'iceberg' / 'catalog.db'}"
                table = catalogs.load_catalog("barnabas", type="sql", uri=uri).load_table("old.rows")
                return sorted(table.scan().to_arrow()["value"].to_pylist())


# What is refused is the same in all of them, and is tried without Spark with the sinks themselves.
@pytest.mark.parametrize("kind", SINKS if os.environ.get("TEST_CRASHES") == "all" else ["delta"])
def test_an_old_checkpoint_is_refused_and_its_advice_leads_to_every_row_once(
    kind: str, spark: Any, client: "Bus", bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    rows = Rows(kind, spark, client, bootstrap, make_topic(), tmp_path)
    rows.run("newest")
    shutil.copytree(tmp_path / "newest", tmp_path / "copy")
    rows.run("newest")

    with pytest.raises(PipelineFailed, match=r"batch 1 .* with other offsets .* Nothing was") as refused:
        rows.run("copy")
    assert rows.read() == rows.sent[:2]

    offsets = str(refused.value).partition("'startingOffsets' right after ")[2]
    offsets = offsets[offsets.index("{") : offsets.index("}}") + 2]
    rows.run("anew", offsets)
    assert rows.read() == rows.sent
