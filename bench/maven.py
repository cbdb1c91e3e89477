"""JARs from Maven Central, for what Barnabas is compared and used with: Spark's own Kafka connector, and Apache Kafka.

Kept in the directory of temporary files. BENCH_KAFKA_JARS may name the JARs of the connector, separated by commas,
KAFKA_BROKER_JARS the directory with those of a broker, and KAFKA_TOOL_JARS the one with Kafka's clients and tools.
Where neither these nor Maven are to be had, there are none.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

CONNECTOR_JARS = "BENCH_KAFKA_JARS"
BROKER_JARS = "KAFKA_BROKER_JARS"
TOOL_JARS = "KAFKA_TOOL_JARS"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
KAFKA = "4.1.1"
KAFKA_TOOLS = "4.3.0"
# What Spark's own connector is made of, in the versions to try.
_CONNECTOR = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": ("{spark}", "4.2.0", "4.1.1"),
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": ("{spark}", "4.2.0", "4.1.1", "4.0.0"),
    "org.apache.kafka:kafka-clients": ("3.9.2", "3.9.1"),
    "org.apache.commons:commons-pool2": ("2.13.1", "2.12.1"),
}
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>peer</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""


def kafka_jars() -> list[Path]:
    """Spark's own connector and what it needs, as near to this version of Spark as there is; none if it is not to be
    had here."""
    named = os.environ.get(CONNECTOR_JARS)
    if named:
        return [Path(each) for each in named.split(",")]
    if shutil.which("mvn") is None:
        return []
    import pyspark  # noqa: PLC0415 - an extra

    spark = pyspark.__version__
    directory = _directory(f"spark-{spark}")
    found = [
        _fetch(artifact, [version.format(spark=spark) for version in versions], directory)
        for artifact, versions in _CONNECTOR.items()
    ]
    return [] if None in found else [each for each in found if each is not None]


def broker_jars() -> Path | None:
    """A directory with Apache Kafka's broker and all it needs; None if it is not to be had here."""
    return _with_dependencies(BROKER_JARS, f"kafka-{KAFKA}", ("kafka_2.13", KAFKA))


def tool_jars(version: str = KAFKA_TOOLS) -> Path | None:
    """A directory with Kafka's Java clients and its command line tools; None if they are not to be had here."""
    return _with_dependencies(TOOL_JARS, f"kafka-tools-{version}", ("kafka_2.13", version), ("kafka-tools", version))


def _with_dependencies(setting: str, name: str, *artifacts: tuple[str, str]) -> Path | None:
    """A directory with these artifacts of Kafka and all they need: the one that the setting names, or from Maven."""
    named = os.environ.get(setting)
    if named:
        return Path(named)
    directory = _directory(name)
    jars = directory / "jars"
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None:
        return None
    parts = [*(("org.apache.kafka", *each) for each in artifacts), ("org.slf4j", "slf4j-simple", "1.7.36")]
    directory.mkdir(parents=True, exist_ok=True)
    project = directory / "pom.xml"
    project.write_text(_PROJECT.format("".join(_DEPENDENCY.format(*each) for each in parts)))
    unfinished = directory / f"jars.{os.getpid()}"
    command = ["mvn", "-q", "-B", "-f", str(project), f"{_PLUGIN}:copy-dependencies", f"-DoutputDirectory={unfinished}"]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        return None
    unfinished.rename(jars)
    return jars


def _directory(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"barnabas-bench-{name}"


def _fetch(artifact: str, versions: Sequence[str], directory: Path) -> Path | None:
    """The JAR of an artifact in the first of these versions that there is."""
    for version in versions:
        jar = directory / f"{artifact.partition(':')[2]}-{version}.jar"
        if not jar.exists():
            command = ["mvn", "-q", "-B", f"{_PLUGIN}:copy", f"-Dartifact={artifact}:{version}"]
            subprocess.run([*command, f"-DoutputDirectory={directory}"], check=False, capture_output=True)
        if jar.exists():
            return jar
    return None
