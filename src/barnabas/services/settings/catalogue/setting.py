"""The definition of a setting: its name, type, default, and valid texts.

A value is a text until it is used, as in Kafka: that is how it is stored, altered and described. `Setting.parse`
turns it into a value, or refuses it and says what is allowed.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import msgspec

from barnabas.core.errors import InvalidConfig

LONGEST_VALUE: Final = 2**15 - 1
"""Characters of a value; Kafka refuses longer ones."""

Value = str | int | float | bool | tuple[str, ...]


class SettingType(IntEnum):
    """The type of a setting, numbered as in a DescribeConfigs response."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,100}")  # Python converts thousands of digits only to refuse more
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Secret(str):
    """A text that is not shown, whatever prints what holds it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(a secret)"


class InvalidSetting(InvalidConfig):
    """A refused setting, with its name, so that the reader of a file can add where it came from."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class UnknownSetting(InvalidSetting):
    """A setting that does not exist."""


class BrokerName(msgspec.Struct, frozen=True):
    """The name under which a broker sets the default of a topic setting, perhaps in another unit."""

    name: str
    factor_ms: int = 1
    """The factor that converts a value into the topic setting's unit."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. Its value is checked by `parse`."""

    name: str
    kind: SettingType
    default: str | None = None
    doc: str
    is_read_only: bool = False
    """True if it can be changed only by a restart of the broker."""
    has_effect: bool = True
    """False for a setting that is accepted, stored and shown, and has no effect."""
    is_internal: bool = False
    """True for a setting that is shown only if it was set."""
    at_least: float | None = None
    at_most: float | None = None
    also: float | None = None
    """One more number that is allowed, outside the range."""
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    """What the whole text must match; `pattern_says` puts it in words."""
    pattern_says: str = ""
    broker_names: tuple[BrokerName, ...] = ()
    """For a topic setting: the broker settings of its default; the first that is set applies."""

    @property
    def is_sensitive(self) -> bool:
        """True if the value is a secret, which is never shown."""
        return self.kind is SettingType.PASSWORD

    @property
    def broker_name(self) -> str | None:
        """The first of the names under which a broker sets the default."""
        return self.broker_names[0].name if self.broker_names else None

    @property
    def allowed(self) -> str:
        """The valid values, in words."""
        if self.choices:
            return ("any of " if self.kind is SettingType.LIST else "") + ", ".join(self.choices)
        if self.pattern is not None:
            return self.pattern_says
        return self._allowed_range() or _TYPE_SAYS[self.kind]

    def parse(self, text: str) -> Value:
        """Parse a text; an invalid one is refused."""
        if len(text) > LONGEST_VALUE:
            raise InvalidSetting(self.name, f"{self.name} is longer than {LONGEST_VALUE} characters")
        value = self._typed(text.strip())
        if not self._is_allowed(value, text.strip()):
            raise self._refusal(text)
        return value

    def _typed(self, text: str) -> Value:
        match self.kind:
            case SettingType.BOOLEAN if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case SettingType.SHORT | SettingType.INT | SettingType.LONG if _WHOLE_NUMBER.fullmatch(text):
                return int(text)
            case SettingType.DOUBLE if _NUMBER.fullmatch(text):
                return float(text)
            case SettingType.LIST:
                return split_list(text)
            case SettingType.STRING | SettingType.CLASS:
                return text
            case SettingType.PASSWORD:
                return Secret(text)
        raise self._refusal(text)

    def _is_allowed(self, value: Value, text: str) -> bool:
        if self.pattern is not None and re.fullmatch(self.pattern, text) is None:
            return False
        if isinstance(value, tuple):
            is_set = len(set(value)) == len(value) and "" not in value
            return is_set and (not self.choices or all(part in self.choices for part in value))
        if self.choices:
            return text in self.choices
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._is_in_range(value)
        return True

    def _is_in_range(self, number: float) -> bool:
        bits = _BITS.get(self.kind)
        if bits is not None and not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            return False
        if self.also is not None and number == self.also:
            return True
        is_enough = self.at_least is None or number >= self.at_least
        return is_enough and (self.at_most is None or number <= self.at_most)

    def _allowed_range(self) -> str:
        if self.at_least is None and self.at_most is None:
            return ""
        if self.at_most is None:
            words = f"at least {self.at_least:g}" if _is_short(self.at_least) else f"at least {self.at_least}"
        else:
            words = f"from {self.at_least} to {self.at_most}"
        return words if self.also is None else f"{words}, or {self.also}"

    def _refusal(self, text: str) -> InvalidSetting:
        shown = "(a secret)" if self.is_sensitive else repr(text)
        return InvalidSetting(self.name, f"{self.name} cannot be {shown}; allowed: {self.allowed}")


_TYPE_SAYS: Final = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "a text",
    SettingType.INT: "a whole number of 32 bits",
    SettingType.SHORT: "a whole number of 16 bits",
    SettingType.LONG: "a whole number of 64 bits",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a comma-separated list without empty or repeated items",
    SettingType.CLASS: "the name of a class",
    SettingType.PASSWORD: "a text",
    SettingType.UNKNOWN: "a text",
}


def _is_short(number: float | None) -> bool:
    return number is not None and abs(number) < 10**6


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, without spaces around them."""
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def value_text(value: object) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value)


def unknown_setting(name: str, known: Iterable[str], *, what: str) -> UnknownSetting:
    """The refusal of an unknown name, with similar ones."""
    import difflib  # noqa: PLC0415 - for this refusal alone

    close = difflib.get_close_matches(name, sorted(known), n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return UnknownSetting(name, f"unknown {what} setting {name!r}{hint}")
