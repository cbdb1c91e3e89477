"""Spark as pip installed it, without its second copy of PySpark.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python that it starts, and there are several
for each query. Nothing compiled is kept of an archive: from it, such a process needs a second of processor time to
start, from the installed package a quarter of that.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from barnabas.spark.made_once import made_once

_LEFT_OUT = "python"


def lean_spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """A directory to use as ``SPARK_HOME``, of links; the user's own wins."""
    import pyspark

    if given := environment.get("SPARK_HOME"):
        return Path(given)
    package = Path(pyspark.__file__).parent

    def fill(home: Path) -> None:
        for entry in package.iterdir():
            if entry.is_dir() and entry.name not in (_LEFT_OUT, "__pycache__"):
                (home / entry.name).symlink_to(entry)

    identity = f"{package} {pyspark.__version__}"
    return made_once(f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:16]}", fill, environment)
