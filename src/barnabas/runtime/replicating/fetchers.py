"""Who is fetched from whom: a fetcher for each node that leads what is followed here, for as long as it does."""

import asyncio
from collections.abc import Callable

from barnabas.runtime.following import Following
from barnabas.runtime.other_brokers import Ask
from barnabas.runtime.replicating.fetcher import Fetcher, FetcherConfig
from barnabas.runtime.replicating.session import Self, TopicIdPartition


class Fetchers:
    """All fetchers of a node. What is followed before `start` is fetched from then on."""

    def __init__(self, brokers: Ask, config: FetcherConfig, who: Callable[[], Self]) -> None:
        self._brokers = brokers
        self._config = config
        self._who = who
        self._leaders: dict[TopicIdPartition, int] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        for leader_id in self._fetchers:
            self._run(leader_id)

    def stop(self) -> None:
        """Fetch nothing more."""
        self._tasks = None
        for task in self._running.values():
            task.cancel()
        self._running.clear()

    def follow(self, place: TopicIdPartition, following: Following) -> None:
        """Fetch a partition from its leader, and from nobody else."""
        leader_id = following.leader_id
        if self._leaders.get(place, leader_id) != leader_id:
            self.leave(place)
        self._leaders[place] = leader_id
        if leader_id not in self._fetchers:
            self._fetchers[leader_id] = Fetcher(leader_id, self._brokers, self._config, self._who)
            self._run(leader_id)
        self._fetchers[leader_id].follow(place, following)

    def leave(self, place: TopicIdPartition) -> None:
        """Fetch a partition no longer."""
        leader_id = self._leaders.pop(place, None)
        if leader_id is None:
            return
        fetcher = self._fetchers[leader_id]
        fetcher.leave(place)
        if fetcher.is_idle:
            del self._fetchers[leader_id]
            task = self._running.pop(leader_id, None)
            if task is not None:
                task.cancel()

    def _run(self, leader_id: int) -> None:
        if self._tasks is not None:
            task = self._tasks.create_task(self._fetchers[leader_id].run(), name=f"replicas of {leader_id}")
            self._running[leader_id] = task
