"""A user to be made, as people write it: ``SCRAM-SHA-256=[name=admin,password=secret,iterations=8192]``.

The notation of Kafka's tools. A password with a comma, a bracket or a quotation mark is in quotation marks, with
backslashes before such marks.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from barnabas.core.access.scram import DEFAULT_ITERATIONS, DIGESTS, MAX_ITERATIONS, MIN_ITERATIONS
from barnabas.core.errors import InvalidConfig

_WHOLE: Final = re.compile(r"(?P<mechanism>[A-Za-z0-9-]+)=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD: Final = re.compile(r'\s*(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<plain>[^,]*))\s*(?:,|$)')
_KNOWN: Final = ("name", "password", "iterations", "salt", "saltedpassword")
_FORM: Final = "SCRAM-SHA-256=[name=USER,password=PASSWORD]"


class NewUser(NamedTuple):
    """A user with a password, or with one that is salted already."""

    mechanism: str
    name: str
    password: str
    iterations: int
    salt: bytes | None = None
    salted_password: bytes | None = None

    def __repr__(self) -> str:
        return f"NewUser({self.name!r}, {self.mechanism}, ...)"


def parse_user(text: str) -> NewUser:
    """The user that a text says; the refusal of a wrong one shows nothing of it."""
    whole = _WHOLE.fullmatch(text.strip())
    if whole is None or whole["mechanism"].upper() not in DIGESTS:
        raise InvalidConfig(f"a user is written {_FORM}, or with SCRAM-SHA-512; this is not")
    fields, position = dict[str, str](), 0
    while position < len(whole["fields"]):
        match = _FIELD.match(whole["fields"], position)
        if match is None or match["name"] not in _KNOWN or match["name"] in fields:
            raise InvalidConfig(f"a user is written {_FORM}; beside these: {', '.join(_KNOWN[2:])}, each once")
        quoted = match["quoted"]
        fields[match["name"]] = match["plain"].strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = match.end()
    return _checked(whole["mechanism"].upper(), fields)


def _checked(mechanism: str, fields: dict[str, str]) -> NewUser:
    count = fields.get("iterations", str(DEFAULT_ITERATIONS))
    if not count.isdecimal() or not MIN_ITERATIONS <= int(count) <= MAX_ITERATIONS:
        raise InvalidConfig(f"a user has {MIN_ITERATIONS} to {MAX_ITERATIONS} iterations")
    if not fields.get("name"):
        raise InvalidConfig(f"a user needs a name: {_FORM}")
    if bool(fields.get("password")) == bool(fields.get("saltedpassword")):
        raise InvalidConfig("a user needs a password, or a saltedpassword with its salt")
    if fields.get("saltedpassword") and not fields.get("salt"):
        raise InvalidConfig("a saltedpassword needs its salt")
    try:
        salt = base64.b64decode(fields["salt"], validate=True) if "salt" in fields else None
        salted = base64.b64decode(fields["saltedpassword"], validate=True) if "saltedpassword" in fields else None
    except (binascii.Error, ValueError):
        raise InvalidConfig("salt and saltedpassword are base64") from None
    return NewUser(mechanism, fields["name"], fields.get("password", ""), int(count), salt, salted)
