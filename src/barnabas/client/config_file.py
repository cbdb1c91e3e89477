"""The client file: how to reach a cluster and log in to it, in one place for the SDK, the command line and Spark.

A Java properties file with librdkafka's names for settings, or Kafka's own where those differ. `BARNABAS_CLIENT_CONFIG`
names it. What a caller sets itself counts more; a caller that sets `security.protocol` sets all of the security.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from barnabas.core.errors import InvalidConfig

VARIABLE: Final = "BARNABAS_CLIENT_CONFIG"
BOOTSTRAP: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_OF_SECURITY: Final = ("ssl.", "sasl.", "security.", "enable.ssl.", "https.ca.")
_LINE: Final = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])+)\s*[=:]?\s*(?P<text>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*(?:"((?:\\.|[^"\\])*)"|\'([^\']*)\'|([^\s;]+))')
_RENAMED: Final = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")


def read_client_file(file: str) -> dict[str, str]:
    """The settings in a client file, under librdkafka's names."""
    try:
        status = Path(file).stat()
    except OSError as error:
        raise InvalidConfig(f"cannot read the client file {file}: {error.strerror}") from None
    return dict(_read(file, status.st_mtime_ns, status.st_size))


def completed(config: Mapping[str, str]) -> dict[str, str]:
    """A caller's settings over those of the client file, if there is one."""
    file = os.environ.get(VARIABLE)
    if not file:
        return dict(config)
    found = read_client_file(file)
    found.pop(BOOTSTRAP, None)
    if _PROTOCOL in config:
        found = {name: text for name, text in found.items() if not name.startswith(_OF_SECURITY)}
    return {**found, **config}


def secured(config: Mapping[str, str]) -> dict[str, str]:
    """A caller's settings over those of the client file that are about security."""
    of_file = completed({})
    if _PROTOCOL in config:
        return dict(config)
    return {**{name: text for name, text in of_file.items() if name.startswith(_OF_SECURITY)}, **config}


def bootstrap_in_file() -> str | None:
    """The addresses that the client file names."""
    file = os.environ.get(VARIABLE)
    return read_client_file(file).get(BOOTSTRAP) if file else None


@lru_cache(maxsize=8)
def _read(file: str, _changed_ns: int, _size: int) -> tuple[tuple[str, str], ...]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"cannot read the client file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"cannot read the client file {file}: it is not UTF-8 text") from None
    return tuple(_translated(file, _properties(file, text)).items())


def _properties(file: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    begun = ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        stripped = line.lstrip()
        if not begun and (not stripped or stripped[0] in "#!"):
            continue
        begun += stripped
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        match = _LINE.fullmatch(begun)
        if match is None:
            raise InvalidConfig(f"{file} line {number} has no name before its value")
        found[_unescaped(match["name"])] = _unescaped(match["text"])
        begun = ""
    return found


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)


def _translated(file: str, given: Mapping[str, str]) -> dict[str, str]:
    """Kafka's names as librdkafka's."""
    found: dict[str, str] = {}
    for name, text in given.items():
        if name in _TYPES:
            if text.upper() != "PEM":
                raise InvalidConfig(f"{file}: {name} is {text}; only PEM is supported here")
        elif name == "sasl.jaas.config":
            login = {key: _quoted(quoted) or single or plain for key, quoted, single, plain in _JAAS.findall(text)}
            found |= {f"sasl.{key}": value for key, value in login.items()}
        else:
            found |= dict.fromkeys(_RENAMED.get(name, (name,)), text)
    return found


def _quoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
