"""Transactions that are being verified with their coordinator, so that a marker that arrives meanwhile is not missed
(KIP-890).

A transactional batch of a client is accepted only into a transaction that is open in its partition, or that was
verified. It may be ended during the verification, so a `Guard` is taken before, and markers end it.
"""

from barnabas.core.replica.producers import marker_ends


class Guard:
    """A transaction that is being verified: the answer is valid until a marker ends the transaction here."""

    __slots__ = ("begins_anew", "is_ended", "leader_epoch", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, *, leader_epoch: int, begins_anew: bool) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.leader_epoch = leader_epoch
        self.begins_anew = begins_anew  # each transaction of the producer has an epoch of its own
        self.is_ended = False


class Guards:
    """The guards held in one partition, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, list[Guard]] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def take(self, guard: Guard) -> None:
        """Add a guard: markers end it from now on, until `release`."""
        self._by_producer.setdefault(guard.producer_id, []).append(guard)

    def release(self, guard: Guard) -> None:
        """Remove a guard: its batch was appended or refused."""
        guards = self._by_producer[guard.producer_id]
        guards.remove(guard)
        if not guards:
            del self._by_producer[guard.producer_id]

    def end(self, producer_id: int, *, marker_epoch: int, version: int) -> None:
        """A marker has ended a producer's transaction."""
        for guard in self._by_producer.get(producer_id, ()):
            guard.is_ended |= marker_ends(guard.producer_epoch, marker_epoch=marker_epoch, version=version)
