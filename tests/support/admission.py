"""A coordinator of transactions that answers as a test tells it to, and when."""

import asyncio
from collections.abc import Mapping, Sequence

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition


class FakeAdmission:
    """Admits everything, but what it is told to refuse; waits while it is held."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.refusals: dict[TopicPartition, list[BarnabasError]] = {}  # for one question after another
        self.is_asked = asyncio.Event()
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        self._may_answer.clear()

    def go_on(self) -> None:
        self._may_answer.set()

    def refuse(self, error: BarnabasError, *, partition: int = 0, times: int = 1) -> None:
        self.refusals[TopicPartition("t", partition)] = [error] * times

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        self.asked.append((transactional_id, producer_id, epoch, tuple(partitions), adds))
        self.is_asked.set()
        await self._may_answer.wait()
        refusals = {name: self.refusals.get(name) for name in partitions}
        return {name: errors.pop(0) if errors else None for name, errors in refusals.items()}
