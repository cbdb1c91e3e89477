"""A Java that starts Spark in a third of the time: its classes come from an archive that was made once.

Loading and checking the classes of Spark is most of what its start costs. Java can write down what it has loaded, and
map that into memory the next time. The archive stays in pytest's cache; another Java or another Spark has another.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from barnabas.spark.java import find_java
from barnabas.spark.spark_home import lean_spark_home

# Of a JVM that runs many small things and not for long: what it compiles, it compiles quickly rather than well. Such a
# JVM has a fifth of the usual room for what it compiled; the session of all tests needs more, or throws away and
# compiles again half of it. And classes that are loaded are no reason to look for garbage.
OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -XX:+UseSerialGC"
# Read by the command of Spark that starts a driver, and by that which starts a master or a worker.
SPARK_SUBMIT_OPTS: Final = "SPARK_SUBMIT_OPTS"
VARIABLES: Final = (SPARK_SUBMIT_OPTS, "SPARK_DAEMON_JAVA_OPTS")
_TIMEOUT_S: Final = 300.0
# Some of everything that tests have Spark do, so that its classes are loaded.
_WORK: Final = """
import sys
from barnabas.spark import session

spark = session("archive", settings={"spark.log.level": "ERROR"})
numbers = spark.range(100).selectExpr("id", "id % 3 AS kind", "to_json(struct(id)) AS text")
numbers.write.parquet(sys.argv[1] + "/numbers")
read = spark.read.parquet(sys.argv[1] + "/numbers").selectExpr("*", "from_json(text, 'id long') AS parsed")
read.mapInArrow(lambda batches: batches, read.schema).groupBy("kind").count().orderBy("kind").collect()
stream = spark.readStream.schema(numbers.schema).parquet(sys.argv[1] + "/numbers")
query = (
    stream.dropDuplicates(["id"]).writeStream.foreachBatch(lambda frame, _: frame.collect())
    .option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()  # it ends with its driver, and writes the archive then
java.wait()
"""


def use_archive(cache: Path) -> None:
    """Have every Spark that this process or one of its children starts take its classes from the archive."""
    archive = _archive(cache)
    quiet = "-Xlog:disable -Xlog:all=error:stderr"  # no word about an archive that does not fit
    for variable in VARIABLES:
        os.environ[variable] = f"{OPTIONS} -XX:SharedArchiveFile={archive} {quiet}"


def _archive(cache: Path) -> Path:
    identity = f"{find_java()} {lean_spark_home()} {_WORK}"
    archive = cache / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes it, the others wait for it
        if not archive.exists():
            _make(archive)
    return archive


def _make(archive: Path) -> None:
    unfinished = archive.with_suffix(f".{os.getpid()}")
    options = f"{OPTIONS} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable -Xlog:all=error:stderr"
    environment = {**os.environ, SPARK_SUBMIT_OPTS: options}
    work = archive.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)  # of a run that was ended while it made one
    command = [sys.executable, "-c", _WORK, str(work)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(work)
    unfinished.rename(archive)
