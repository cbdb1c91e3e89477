"""Which epochs a node takes over from others.

An epoch is a number of 32 bits that never goes back: a node cannot get rid of one that it has adopted, and after the
last there is no election. So what others say is believed within bounds:

- A request may be ahead of this node by `MAX_STEP`. One that is further ahead, from an honest node, finds a node that
  was away for a thousand elections; such a node asks the others by itself, and learns the epoch from their answers.
- An answer comes from a node that was asked, and may be ahead by any number, but not into the last epochs:
  `RESERVED_EPOCHS` are left for elections. There everything goes in steps.

Without these bounds one request with the highest number would be the end of the quorum.
"""

from typing import Final

LAST_EPOCH: Final = 2**31 - 1
"""The highest that can be written."""
MAX_STEP: Final = 1000
"""How far ahead of this node's a request's epoch may be."""
RESERVED_EPOCHS: Final = 2**20
"""At the end of all epochs: too many to be used up by elections, and nothing that an answer leads to at once."""


def is_step(current: int, epoch: int) -> bool:
    """Whether a request may lead from the current epoch to this one."""
    return epoch <= min(current + MAX_STEP, LAST_EPOCH)


def is_credible(current: int, epoch: int) -> bool:
    """Whether an answer may lead from the current epoch to this one."""
    return epoch <= LAST_EPOCH - RESERVED_EPOCHS or is_step(current, epoch)
