"""The logs in use of a node's data directory; passes the flusher's news on to their partitions."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.core.errors import BarnabasError
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.led_replicas import LedReplicas
from barnabas.runtime.metrics import Metrics
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log

if TYPE_CHECKING:
    from barnabas.runtime.replica import Replica


class Logs:
    """The logs of a node's data directory, created when a partition is first used, and their flusher."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.partitions: dict[Log, Replica] = {}
        self.replicas = LedReplicas()
        self.flusher: Flusher
        self.rewriting = asyncio.Lock()
        """Held by whoever writes segments anew beside the old ones: one at a time, for their files have the same
        names."""
        self.on_damage: Callable[[Log, int], bool] | None = None
        """Called where a log seems to be damaged, with an offset there; says whether it is going to be repaired."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here, and by the flusher."""
        health = self.data_dir.health
        metrics.gauge("logs_open", "Partitions that have a log on this node.", lambda: len(self.partitions))
        metrics.gauge(
            "log_dir_offline", "1 while the data directory is offline.", lambda: health.offline_reason is not None
        )
        metrics.gauge("log_dir_full", "1 while the data directory is full.", lambda: health.is_full)
        self.flusher.report(metrics)

    def note_damage(self, log: Log, offset: int) -> bool:
        """A log seems to be damaged at an offset; returns whether it is going to be repaired."""
        return self.on_damage is not None and self.on_damage(log, offset)

    def note_start(self, log: Log) -> None:
        """A log starts at another offset."""
        partition = self.partitions.get(log)
        if partition is not None:
            partition.note_start()

    def note_flushed(self, log: Log) -> None:
        partition = self.partitions.get(log)
        if partition is not None:
            partition.note_flushed()

    def note_failed(self, log: Log, error: BarnabasError) -> None:
        partition = self.partitions.get(log)
        if partition is not None:
            partition.fail_waiters(error)
