"""The error codes of groups, as members meet them on the wire."""

from typing import Final

BUSY: Final = (14, 15, 16)  # the coordinator loads, or is not there
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER: Final = 25
REBALANCING: Final = 27
MEMBER_ID_REQUIRED: Final = 79
FENCED_INSTANCE: Final = 82
FENCED_EPOCH: Final = 110
UNRELEASED_INSTANCE: Final = 111
STALE_EPOCH: Final = 113
GROUP_NOT_FOUND: Final = 69
OUT_OF_STEP: Final = (ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE, FENCED_EPOCH, STALE_EPOCH, GROUP_NOT_FOUND)
