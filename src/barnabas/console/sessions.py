"""Who is logged in: the tokens of the API by browser session. In memory alone, since a file or a cookie would outlive
the log-in; a console that starts again asks again.
"""

from typing import Final

MAX_SESSIONS: Final = 1000


class Sessions:
    """The tokens. Of too many the one that came first goes."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def token(self, session_id: str) -> str | None:
        """The token of a session, if somebody has logged in."""
        return self._tokens.get(session_id)

    def log_in(self, session_id: str, token: str) -> None:
        """Keep a token."""
        self._tokens.pop(session_id, None)
        while len(self._tokens) >= MAX_SESSIONS:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[session_id] = token

    def log_out(self, session_id: str) -> None:
        """Forget it."""
        self._tokens.pop(session_id, None)
