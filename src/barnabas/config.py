"""The one place that reads file, flags and environment: names and texts from each, merged into a `BrokerConfig`.

Flags count more than the environment, that more than the file, that more than the defaults. What counts more also
displaces other names for the same setting: ``BARNABAS_LOG_RETENTION_HOURS`` wins over ``log.retention.ms`` in a file,
although within one place ``ms`` wins over ``hours``. A refusal says where the value came from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from barnabas.core.errors import InvalidConfig
from barnabas.services.settings.broker_config import BrokerConfig, known_broker_names
from barnabas.services.settings.broker_names import rivals
from barnabas.services.settings.catalogue.setting import InvalidSetting, unknown_setting

ENVIRONMENT_PREFIX: Final = "BARNABAS_"
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.|$)")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE: Final = " \t\f"
_PROPERTY: Final = re.compile(rf"(?P<name>(?:\\.|[^\\=:{_SPACE}])+)[{_SPACE}]*[=:]?[{_SPACE}]*(?P<text>.*)", re.DOTALL)

NOT_SETTINGS: Final = frozenset({"BARNABAS_BOOTSTRAP", "BARNABAS_CLIENT_CONFIG", "BARNABAS_CLUSTER_DIR"})
"""Variables that are not settings of a broker: what a client connects to."""


_FLAGS: Final = {
    "log.dirs": "--data-dir",
    "listeners": "--listen",
    "advertised.listeners": "--advertise",
    "node.id": "--node-id",
    "broker.rack": "--rack",
}
"""The flags of their own that settings have."""


class Given(NamedTuple):
    """A text that was given for a setting, and where."""

    name: str
    text: str
    origin: str


def load(
    file: Path | None = None,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration that a file, ``--set name=value`` flags, the environment and single flags say together.

    `environ` is the process environment, or what a test puts in its place; without one none is read. `overrides` are
    the values of flags of their own, such as ``--port``, by setting name; they count most.
    """
    environ = environ or {}
    layers = (
        read_file(file) if file is not None else [],
        list(_from_environment(environ)),
        [_from_flag(text) for text in sets],
        [Given(name, text, _FLAGS.get(name, "a flag")) for name, text in (overrides or {}).items()],
    )
    merged: dict[str, Given] = {}
    for layer in layers:
        _displace(merged, layer)
    return _made(merged, environ)


def read_file(file: Path) -> list[Given]:
    """The settings in a file: TOML if its name ends in ``.toml``, Java properties otherwise."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise InvalidConfig(f"cannot read the configuration file {file}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"cannot read the configuration file {file}: it is not UTF-8 text") from None
    if file.suffix.lower() == ".toml":
        return [Given(name, value, str(file)) for name, value in _parse_toml(file, text)]
    return list(_parse_properties(file, text))


def default_log_dir(environ: Mapping[str, str]) -> str:
    """Where data goes if nothing says so: ``barnabas`` in the user's data directory."""
    data_home = environ.get("XDG_DATA_HOME", "")
    if data_home.startswith("/"):  # a relative one is to be ignored, says the XDG specification
        return f"{data_home.rstrip('/')}/barnabas"
    return str(_home(environ) / ".local" / "share" / "barnabas")


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _from_environment(environ: Mapping[str, str]) -> Iterable[Given]:
    names = {name.upper().replace(".", "_"): name for name in known_broker_names()}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_SETTINGS:
            continue
        name = names.get(variable.removeprefix(ENVIRONMENT_PREFIX).upper())
        if name is None:
            guess = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            raise InvalidConfig(
                f"{variable} in the environment: {unknown_setting(guess, names.values(), what='broker')}"
            )
        yield Given(name, text, f"{variable} in the environment")


def _from_flag(text: str) -> Given:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidConfig(f"--set takes name=value, as in --set num.partitions=3, not {text!r}")
    return Given(name.strip(), value, f"--set {name.strip()}")


def _displace(merged: dict[str, Given], layer: Iterable[Given]) -> None:
    """Lay one place's settings over those of the places that count less."""
    layer = list(layer)
    for given in layer:
        for rival in rivals(given.name):
            merged.pop(rival, None)
    merged.update({given.name: given for given in layer})


def _made(merged: Mapping[str, Given], environ: Mapping[str, str]) -> BrokerConfig:
    try:
        config = BrokerConfig.from_properties({name: given.text for name, given in merged.items()})
    except InvalidSetting as refusal:
        origin = next((merged[name].origin for name in rivals(refusal.name) if name in merged), None)
        raise InvalidConfig(f"{origin}: {refusal}" if origin else str(refusal)) from None
    dirs = tuple(_expanded(directory, environ) for directory in config.log_dirs) or (default_log_dir(environ),)
    return msgspec.structs.replace(config, log_dirs=dirs)


def _expanded(directory: str, environ: Mapping[str, str]) -> str:
    return str(_home(environ) / directory[2:]) if directory.startswith("~/") else directory


def _parse_toml(file: Path, text: str) -> list[tuple[str, str]]:
    import tomllib  # noqa: PLC0415 - many nodes have no such file

    try:
        return list(_flattened(tomllib.loads(text), ""))
    except tomllib.TOMLDecodeError as problem:
        hint = 'a name that is the start of another goes in quotes: "max.connections" = 100'
        raise InvalidConfig(f"{file} is not valid TOML: {problem} ({hint})") from None
    except InvalidSetting as refusal:
        raise InvalidConfig(f"{file}: {refusal}") from None


def _flattened(table: Mapping[str, object], prefix: str) -> Iterable[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _toml_text(f"{prefix}{key}", value)


def _toml_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and not any(isinstance(part, list | dict) for part in value):
        return ",".join(_toml_text(name, part) for part in value)
    raise InvalidSetting(name, f"{name} must be a text, a number, true or false, or a list of those")


def _parse_properties(file: Path, text: str) -> Iterable[Given]:
    for number, line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        if match is None:
            raise InvalidConfig(f"{file} line {number} has no name before its value")
        try:
            name, value = _unescaped(match["name"]), _unescaped(match["text"])
        except ValueError:
            raise InvalidConfig(f"{file} line {number}: \\u must be followed by four hexadecimal digits") from None
        yield Given(name, value, f"{file} line {number}")


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """The lines that are not blank or comments, with their numbers; those that end in a backslash are joined."""
    joined: str | None = None
    begun_at = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        stripped = line.lstrip(_SPACE)
        if joined is None:
            if not stripped or stripped[0] in "#!":
                continue
            begun_at = number
        joined = (joined or "") + stripped
        is_continued = (len(joined) - len(joined.rstrip("\\"))) % 2 == 1
        if is_continued:
            joined = joined[:-1]
        else:
            yield begun_at, joined
            joined = None
    if joined:
        yield begun_at, joined


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code.startswith("u"):
            if len(code) == 1:
                raise ValueError
            return chr(int(code[1:], 16))
        return _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)
