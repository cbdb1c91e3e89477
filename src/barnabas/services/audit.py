"""The audit log: who asked for what, and whether it was allowed. One line of JSON for each decision.

The lines go to a logger of their own, `barnabas.audit`. All that a client chose is a JSON string in ASCII, truncated if
it is long, so no client can end a line or begin another. There are no secrets in it: only names are authorized.
"""

import json
from enum import Enum
from typing import Final

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.runtime.log_lines import get_logger
from barnabas.services.session import Session

# Not limited: an audit log that leaves lines out is none.
log = get_logger("barnabas.audit", is_limited=False)

LONGEST_NAME: Final = 200
_ANY: Final = "*"


class Audited(Enum):
    """What is written."""

    NONE = "none"
    DENIED = "denied"
    ALL = "all"


class Audit:
    """Writes the decisions that it is told of, as far as they are wanted."""

    __slots__ = ("_writes_allowed",)

    def __init__(self, audited: Audited) -> None:
        self._writes_allowed = audited is Audited.ALL

    def note(self, session: Session, operation: Operation, resource: Resource, *, is_allowed: bool) -> None:
        """A client has asked for this."""
        if is_allowed and (session.is_node or not self._writes_allowed):  # nodes would fill it with their work
            return
        line = {
            "allowed": is_allowed,
            "principal": _short(str(session.principal)),
            "host": _short(session.peer[0]),
            "listener": session.listener,
            "client_id": None if session.client_id is None else _short(session.client_id),
            "request": session.request,
            "operation": operation.name,
            "resource_type": resource.type.name,
            "resource": _short(resource.name),
            "forwarded": session.is_forwarded,
        }
        log.info("%s", json.dumps(line))

    def note_any(self, session: Session, operation: Operation, kind: ResourceType) -> None:
        """A client may do this to some resource of a type, and that was enough."""
        self.note(session, operation, Resource(kind, _ANY), is_allowed=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."
