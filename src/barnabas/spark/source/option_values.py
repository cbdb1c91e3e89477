"""Options as text, and what they mean: numbers, sizes, durations, yes and no. Every refusal names the option."""

import re
from collections.abc import Mapping
from typing import Final

from barnabas.spark.source.refusals import InvalidOption

_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATIONS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionText:
    """What a user wrote, by option; names are compared without regard to case, as Spark does."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def text(self, option: str) -> str | None:
        return self._given.get(option.lower())

    def flag(self, option: str, *, default: bool) -> bool:
        text = self.text(option)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidOption(f"option {option!r} is {text!r}; it may be true or false")
        return text.lower() == "true"

    def number(self, option: str, *, lowest: int) -> int | None:
        text = self.text(option)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,18}", text.strip()) or int(text) < lowest:
            raise InvalidOption(f"option {option!r} is {text!r}; it is a whole number from {lowest} on")
        return int(text)

    def size(self, option: str) -> int | None:
        """A number of bytes: 1048576, 512k, 64m, 1g."""
        text = self.text(option)
        if text is None:
            return None
        match = re.fullmatch(r"(\d{1,15})\s*([kmgt]?)i?b?", text.strip().lower())
        if match is None or int(match[1]) == 0:
            raise InvalidOption(f"option {option!r} is {text!r}; it is a size such as 1048576, 512k, 64m or 1g")
        return int(match[1]) * _SIZES[match[2]]

    def duration_ms(self, option: str, *, default_ms: int) -> int:
        """A time: 500, 500ms, 30s, 15m, 1h."""
        text = self.text(option)
        if text is None:
            return default_ms
        match = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", text.strip().lower())
        if match is None or match[2] not in _DURATIONS_MS:
            raise InvalidOption(f"option {option!r} is {text!r}; it is a time such as 500ms, 30s, 15m or 1h")
        return int(match[1]) * _DURATIONS_MS[match[2]]

    def choice(self, option: str, choices: tuple[str, ...], *, default: str) -> str:
        text = self.text(option)
        if text is None:
            return default
        if text.lower() not in choices:
            raise InvalidOption(f"option {option!r} is {text!r}; it may be {' or '.join(choices)}")
        return text.lower()

    def only_one_of(self, options: tuple[str, ...]) -> str | None:
        """The one of these options that was given, if any was."""
        given = [option for option in options if self.text(option) is not None]
        if len(given) > 1:
            raise InvalidOption(f"options {given[0]!r} and {given[1]!r} contradict each other: give one of them")
        return given[0] if given else None
