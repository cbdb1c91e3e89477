"""Where the authentication of one connection is: which request is expected, and what becomes of any other.

    start -> (ApiVersions) -> SaslHandshake -> tokens -> done

Tokens are in SaslAuthenticate after a handshake of version 1, and bare after one of version 0. A client that is
authenticated and must prove it again begins with the handshake, with the mechanism that it used before.

Must not know: sockets, mechanisms, nor how requests are encoded.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36


class Step(Enum):
    """What is expected next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    """In a SaslAuthenticate."""
    BARE_TOKEN = auto()
    DONE = auto()
    ENDED = auto()
    """The connection closes."""


class Verdict(Enum):
    """What becomes of a request."""

    TAKE = auto()
    REFUSE = auto()
    """Answer ILLEGAL_SASL_STATE, and close."""
    HANG_UP = auto()


class LoginFlow:
    """The steps of one authentication. `again_by`: the mechanism that a client used before which does it again."""

    __slots__ = ("_again_by", "_mechanisms", "mechanism", "step")

    def __init__(self, mechanisms: Sequence[str], *, again_by: str | None = None) -> None:
        self._mechanisms = tuple(mechanisms)
        self._again_by = again_by
        self.mechanism = ""
        self.step = Step.VERSIONS_OR_HANDSHAKE if again_by is None else Step.HANDSHAKE

    @property
    def is_bare(self) -> bool:
        """Whether the next frame is a token alone, without a header."""
        return self.step is Step.BARE_TOKEN

    def judge(self, api_key: int) -> Verdict:
        """What becomes of a request of this API."""
        if self.step is Step.TOKEN:
            if api_key == SASL_AUTHENTICATE:
                return Verdict.TAKE
            self.step = Step.ENDED
            return Verdict.REFUSE
        if api_key == SASL_HANDSHAKE and self.step in (Step.VERSIONS_OR_HANDSHAKE, Step.HANDSHAKE):
            return Verdict.TAKE
        if api_key == API_VERSIONS and self.step is Step.VERSIONS_OR_HANDSHAKE:
            return Verdict.TAKE
        self.step = Step.ENDED
        return Verdict.HANG_UP

    def note_versions(self) -> None:
        """The versions were told: once is enough."""
        assert self.step is Step.VERSIONS_OR_HANDSHAKE
        self.step = Step.HANDSHAKE

    def choose(self, mechanism: str, *, version: int) -> bool:
        """A handshake names this mechanism; False if it is not accepted here."""
        assert self.step in (Step.VERSIONS_OR_HANDSHAKE, Step.HANDSHAKE)
        if mechanism not in self._mechanisms:
            self.step = Step.ENDED
            return False
        self.mechanism = mechanism
        self.step = Step.TOKEN if version > 0 else Step.BARE_TOKEN
        return True

    @property
    def is_same_mechanism(self) -> bool:
        """Whether a client that proves again who it is does so as before."""
        return self._again_by in (None, self.mechanism)

    def finish(self) -> None:
        """The client has proved who it is."""
        assert self.step in (Step.TOKEN, Step.BARE_TOKEN)
        self.step = Step.DONE

    def fail(self) -> None:
        """The client could not prove who it is."""
        self.step = Step.ENDED
