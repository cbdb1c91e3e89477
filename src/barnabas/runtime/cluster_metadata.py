"""The metadata of the cluster as services see it: the image, how it is changed, and who is notified.

Services know nothing of where it comes from. Today that is `metadata_log`, the log of a node that is its own quorum of
one. In a cluster the active controller decides, and a quorum commits. The contract below is written for both:

- An image is a state of one moment. It may be changed in place or replaced by another, and what was not committed may
  be taken back with the leader that decided it. So nobody keeps an image, or a part of one, over an await: ask for
  `image` again. The records in it are values, and may be kept.
- Each decision sees all that were decided before it, committed or not yet. The image that readers see has only what
  is committed.
- A reply means: committed, and applied on this node. Whoever gets it finds it in `image`.
- A refusal of `decide` passes through, and nothing is changed.
- `NotController`: nothing was decided. Another node is the controller, or none is.
- `ControllerBusy`: nothing was decided, too many changes wait.
- `RequestTimedOut`: it was decided and is not known to be committed, because the leadership was lost meanwhile. It may
  take effect later, or never. The same is true of a `StorageError`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.metadata.records import MetadataRecord
from barnabas.core.raft.voters import VoterSet
from barnabas.runtime.metrics import Reporter

T = TypeVar("T")
Decide: TypeAlias = Callable[[Image], MetadataDecision[T]]
Subscriber: TypeAlias = Callable[[Sequence[MetadataRecord]], None]
LeadershipListener: TypeAlias = Callable[[int | None], None]
"""Is called with the epoch in which this node is the active controller from now on, and with None when it is not."""


class ImageSource(Protocol):
    """Has the image."""

    @property
    def image(self) -> Image:
        """The state now; keep nothing of it over an await."""
        ...


class ClusterMetadata(ImageSource, Reporter, Protocol):
    """The metadata of the cluster; see the module for the contract."""

    @property
    def applied_offset(self) -> int:
        """The offset of the metadata log up to which the image has applied it."""
        ...

    @property
    def end_offset(self) -> int:
        """The end of this node's log, what is not committed yet included: where `decide` has its records written."""
        ...

    @property
    def quorum(self) -> Quorum:
        """The quorum that commits changes, as far as this node knows."""
        ...

    @property
    def voters(self) -> VoterSet:
        """Who votes in the quorum, and where they listen, as far as this node knows."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller: it leads, and has applied all that was decided before."""
        ...

    @property
    def unconfirmed_ms(self) -> int | None:
        """How long ago it was certain that no other node leads the quorum; None: it never was, or this one does not."""
        ...

    @property
    def former_leader(self) -> tuple[int, int] | None:
        """Who led the quorum before this node, and how many milliseconds ago it can last have been sure of that; None:
        nobody is known, or this one does not lead.
        """
        ...

    async def wait_applied(self, end_offset: int) -> None:
        """Return when the log up to `end_offset` is applied on this node. Use your own deadline."""
        ...

    def follow_leadership(self, listener: LeadershipListener) -> None:
        """Call when this node becomes the active controller, and when it is no more. Must not wait, must not raise."""
        ...

    async def commit(self, decide: Decide[T]) -> T:
        """Decide on the current state; returns the reply when the decision is committed and applied here."""
        ...

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call with the records of every commit from now on, in order, once they are applied."""
        ...
