"""One request of the API, as its route sees it: who asks, the names in its path, its parameters, its body."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from barnabas.edge.http.context import Context
from barnabas.edge.http.problems import bad
from barnabas.services.call_quotas import Use
from barnabas.services.session import Session

TRUE: Final = ("1", "true", "yes", "")
FALSE: Final = ("0", "false", "no")
MAX_TEXT: Final = 32_767
_DIGITS: Final = 19


class Call(NamedTuple):
    """A request that was read."""

    session: Session
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: Any = None
    is_gone: Callable[[], Awaitable[bool]] | None = None

    def text(self, name: str, default: str = "") -> str:
        """A parameter; of several the last."""
        found = self.query.get(name)
        text = found[-1] if found else default
        if len(text) > MAX_TEXT:
            raise bad(f"{name} is longer than {MAX_TEXT} characters")
        return text

    def texts(self, name: str) -> list[str]:
        """All values of a parameter."""
        return list(self.query.get(name, ()))

    def one_of(self, name: str, *choices: str) -> str:
        """A parameter with a few values, the first by default."""
        found = self.text(name, choices[0])
        if found not in choices:
            raise bad(f"{name} is one of {', '.join(choices)}")
        return found

    def number(self, name: str, default: int, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
        """A parameter that is a whole number."""
        text = self.text(name, str(default))
        return whole(name, text, at_least=at_least, at_most=at_most)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A parameter that is true or false; without a value it is true."""
        if name not in self.query:
            return default
        text = self.text(name).lower()
        if text not in (*TRUE, *FALSE):
            raise bad(f"{name} is true or false")
        return text in TRUE


def whole(name: str, text: str, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
    """A whole number in a text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS or not at_least <= int(text) <= at_most:
        raise bad(f"{name} is a whole number from {at_least} to {at_most}")
    return int(text)


class Param(NamedTuple):
    """A parameter of a query, for the description of the API."""

    name: str
    kind: Literal["string", "integer", "boolean", "array"]
    doc: str


Handle = Callable[[Context, Call], Awaitable[Any]]


class Route(NamedTuple):
    """A route: what is called, and what is said of it."""

    method: str
    path: str
    handle: Handle
    doc: str
    gives: Any
    takes: Any = None
    params: tuple[Param, ...] = ()
    status: int = 200
    is_open: bool = False  # for those, too, who have not logged in
    use: Use = Use.TIME  # of quotas
