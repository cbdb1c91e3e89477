"""What is counted for `/metrics` alone: loaded where HTTP is served, and by nobody else."""

from typing import NamedTuple

from barnabas.runtime.loop_watch import LoopWatch
from barnabas.services.broker import Broker
from barnabas.services.lag import GroupLags
from barnabas.services.reading import ClusterReader
from barnabas.services.stats import NodeStats


class Counted(NamedTuple):
    """What counts, and how it reads the offsets of other nodes."""

    stats: NodeStats
    watch: LoopWatch
    lags: GroupLags
    reader: ClusterReader

    @classmethod
    def of(cls, broker: Broker) -> "Counted":
        """The parts of a node that count; they name what they do in its metrics."""
        assert broker.others is not None
        reader = ClusterReader(broker.served, broker.fetch, broker.others, broker.threads.reads)
        lags = GroupLags(broker.groups.loaded, reader, broker.threads.compute, broker.clock)
        counted = cls(NodeStats(broker), LoopWatch(), lags, reader)
        for part in (counted.stats, counted.watch, counted.lags):
            part.report(broker.metrics)
        return counted
