"""A Python for Spark's workers that starts in three quarters of the time: a JAR of Spark is not on its path. And one
for its planning that forks what is loaded already: see `quick_daemon`.

Spark puts its core library onto the path of every Python that it starts, several for each query. There is no module in
that archive of thousands of files, but Python reads its directory when it starts, again when Spark tells it what to
load, and once more when a package asks for a version.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

_SCRIPT: Final = """\
#!/bin/sh
path=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        *.jar) ;;
        *) path=$path${{path:+:}}$entry ;;
    esac
done
export PYTHONPATH=$path
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    exec {python} -P {daemon} "$@"
fi
exec {python} "$@"
"""
_DAEMON: Final = Path(__file__).parent / "quick_daemon.py"


def use_short_path(cache: Path) -> None:
    """Have every Spark that this process or one of its children starts run its workers so."""
    cache.mkdir(parents=True, exist_ok=True)
    script = cache / "python"
    unfinished = cache / f"python.{os.getpid()}"
    unfinished.write_text(_SCRIPT.format(python=shlex.quote(sys.executable), daemon=shlex.quote(str(_DAEMON))))
    unfinished.chmod(0o700)
    unfinished.rename(script)
    os.environ["PYSPARK_PYTHON"] = str(script)
