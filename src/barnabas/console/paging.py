"""Addresses of the console: where a page is, with its filter and its position, so that it can be kept and sent on."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit

from barnabas.console.showing import count


def address(path: str, params: Mapping[str, str | Sequence[str]] | None = None) -> str:
    """A path with parameters; those that are empty are left out."""
    pairs: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        pairs += [(name, each) for each in ([value] if isinstance(value, str) else value) if each]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def topic_address(name: str, page: str = "") -> str:
    """Where a topic is shown."""
    return f"/topics/{quote(name, safe='')}" + (f"/{page}" if page else "")


def group_address(name: str) -> str:
    """Where a group is shown; its name may have anything in it, so it is no part of the path."""
    return address("/group", {"name": name})


def place(shown: int, total: int, *, is_first: bool, has_next: bool) -> str:
    """What part of all is on a page."""
    if is_first and not has_next:
        return f"{count(total)} in all"
    return f"{count(shown)} of {count(total)}"


def own_page(text: str) -> str:
    """An address to go back to, if it is one of the console's own; else the first page."""
    if not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    try:
        found = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if found.scheme or found.netloc else text
