"""What a node and its cluster look like, in numbers: topics, replicas, the controller, the quorum, disk and memory.

Read from the image and from what is served, when somebody asks; only the free space and what takes a walk over all
producers is measured now and then (`run`). Names are those of Kafka's JMX beans as exporters write them, where Kafka
has such a number. As there, what only a controller knows is 0 on every other node.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from barnabas.core.metadata.records import NO_LEADER
from barnabas.runtime.disk_space import UNKNOWN_SPACE, disk_space
from barnabas.runtime.metrics import Labels, Metrics, Number
from barnabas.runtime.partition import Partition
from barnabas.runtime.traffic import Traffic
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker

INTERVAL_S: Final = 15.0
HANGING_AFTER_MS: Final = 5 * 60_000
"""So much longer than the longest timeout a transaction may be open before it counts as hanging."""
_STATM: Final = Path("/proc/self/statm")


class NodeStats:
    """The numbers of one node; `run` is a task of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.space = UNKNOWN_SPACE
        self.hanging = 0
        self.elections = 0
        broker.metadata.follow_leadership(self._note_leadership)

    def _note_leadership(self, epoch: int | None) -> None:
        self.elections += epoch is not None

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(INTERVAL_S)

    async def measure(self) -> None:
        """Measure what is not simply read."""
        path = self._broker.logs.data_dir.path
        self.space = await self._broker.threads.background.run(lambda: disk_space(path))
        longest_ms = self._broker.live.current.transactions.transaction_max_timeout_ms + HANGING_AFTER_MS
        before_ms = self._broker.clock.now_ms() - longest_ms
        hanging = 0
        async for partition in in_turns(list(self._led())):
            log = partition.held_log
            if log is not None:
                hanging += sum(
                    each.transaction_start is not None and each.last_timestamp < before_ms for each in log.producers
                )
        self.hanging = hanging

    def report(self, metrics: Metrics) -> None:
        """Name all of it."""
        self._report_topics(metrics)
        self._report_replicas(metrics)
        self._report_controller(metrics)
        self._report_quorum(metrics)
        self._report_logs(metrics)
        self._report_process(metrics)

    # Topics

    def _report_topics(self, metrics: Metrics) -> None:
        counts: tuple[tuple[str, str, Callable[[Traffic], int]], ...] = (
            ("messagesin", "Records that clients have written.", lambda each: each.records_in),
            ("bytesin", "Bytes of batches that clients have written.", lambda each: each.bytes_in),
            ("bytesout", "Bytes of batches that consumers have fetched.", lambda each: each.bytes_out),
            ("replicationbytesout", "Bytes that followers have fetched.", lambda each: each.replica_bytes_out),
            ("failedproducerequests", "Batches that were refused.", lambda each: each.failed_produces),
            ("failedfetchrequests", "Fetches of a partition that were refused.", lambda each: each.failed_fetches),
        )
        for name, doc, of in counts:
            metrics.family(
                f"kafka_server_brokertopicmetrics_{name}_total", f"{doc} By topic.", ("topic",), self._traffic(of)
            )
        metrics.family(
            "topic_partitions", "Partitions of a topic in the whole cluster.", ("topic",), self._partition_counts
        )
        metrics.family(
            "topic_size_bytes", "Bytes of the replicas of a topic that this node has.", ("topic",), self._topic_sizes
        )

    def _traffic(self, of: Callable[[Traffic], int]) -> Callable[[], Iterator[tuple[Labels, Number]]]:
        def read() -> Iterator[tuple[Labels, Number]]:
            for topic in list(self._broker.served.by_name.values()):
                yield (topic.name,), of(topic.traffic)

        return read

    def _partition_counts(self) -> Iterator[tuple[Labels, Number]]:
        for topic in list(self._broker.image.topics.values()):
            yield (topic.name,), len(topic.partitions)

    def _topic_sizes(self) -> Iterator[tuple[Labels, Number]]:
        for topic in list(self._broker.served.by_name.values()):
            logs = (each.held_log for each in list(topic.partitions.values()))
            yield (topic.name,), sum(log.size for log in logs if log is not None)

    # Replicas

    def _report_replicas(self, metrics: Metrics) -> None:
        served, prefix = self._broker.served, "kafka_server_replicamanager_"
        metrics.gauge(
            f"{prefix}underreplicatedpartitions",
            "Partitions that this node leads whose ISR lacks a replica.",
            lambda: sum(len(each.in_sync) < len(each.replicas) for each in self._led()),
        )
        metrics.gauge(
            f"{prefix}underminisrpartitioncount",
            "Partitions that this node leads whose ISR is smaller than min.insync.replicas: acks=all is refused.",
            lambda: sum(len(each.in_sync) < min(each.min_insync_replicas, len(each.replicas)) for each in self._led()),
        )
        metrics.gauge(f"{prefix}partitioncount", "Replicas that this node has.", lambda: sum(1 for _ in self._held()))
        metrics.gauge(f"{prefix}leadercount", "Partitions that this node leads.", lambda: sum(1 for _ in self._led()))
        metrics.counter(f"{prefix}isrshrinks_total", "ISRs that lost a replica.", lambda: served.isr_shrinks)
        metrics.counter(f"{prefix}isrexpands_total", "ISRs that gained a replica.", lambda: served.isr_expands)
        metrics.gauge(
            "partitions_cut_off",
            "Partitions that this node leads and takes no records for, since another node may lead them by now.",
            lambda: len(self._broker.logs.replicas.cut_off),
        )

    def _led(self) -> Iterator[Partition]:
        return (each for each in self._held() if each.is_led)

    def _held(self) -> Iterator[Partition]:
        node_id = self._broker.config.node_id
        for topic in list(self._broker.served.by_name.values()):
            for each in list(topic.partitions.values()):
                if node_id in each.replicas:
                    yield each

    # The controller

    def _report_controller(self, metrics: Metrics) -> None:
        prefix, broker = "kafka_controller_kafkacontroller_", self._broker

        def on_controller(name: str, doc: str, count: Callable[[], int]) -> None:
            metrics.gauge(f"{prefix}{name}", f"{doc} 0 elsewhere.", lambda: count() if broker.metadata.is_active else 0)

        metrics.gauge(
            f"{prefix}activecontrollercount",
            "1 on the active controller.",
            lambda: int(broker.metadata.is_active),
        )
        on_controller("offlinepartitionscount", "On the active controller: partitions without a leader.", self._offline)
        on_controller(
            "activebrokercount",
            "On the active controller: brokers that take part.",
            lambda: sum(node.is_active for node in broker.image.nodes.values()),
        )
        on_controller(
            "fencedbrokercount",
            "On the active controller: brokers that are fenced.",
            lambda: sum(node.is_fenced for node in broker.image.nodes.values()),
        )
        on_controller(
            "globaltopiccount", "On the active controller: topics of the cluster.", lambda: len(broker.image.topics)
        )
        on_controller(
            "globalpartitioncount",
            "On the active controller: partitions of the cluster.",
            lambda: sum(len(topic.partitions) for topic in broker.image.topics.values()),
        )

    def _offline(self) -> int:
        topics = list(self._broker.image.topics.values())
        return sum(state.leader == NO_LEADER for topic in topics for state in topic.partitions.values())

    # The quorum

    def _report_quorum(self, metrics: Metrics) -> None:
        metadata = self._broker.metadata
        metrics.gauge("quorum_epoch", "The epoch of the quorum.", lambda: metadata.quorum.leader_epoch)
        metrics.gauge(
            "quorum_leader_id", "The node that leads the quorum; -1: none.", lambda: metadata.quorum.leader_id
        )
        metrics.gauge("quorum_high_watermark", "What the quorum has committed.", lambda: metadata.quorum.high_watermark)
        metrics.gauge("metadata_applied_offset", "What this node has applied.", lambda: metadata.applied_offset)
        metrics.gauge("quorum_voters", "Nodes that vote.", lambda: len(metadata.voters.voters))
        metrics.counter(
            "quorum_elections_won_total", "How often this node became the active controller.", lambda: self.elections
        )
        metrics.family(
            "quorum_lag",
            "On the leader of the quorum: how many entries of the metadata log a node has yet to fetch.",
            ("node",),
            self._quorum_lags,
        )

    def _quorum_lags(self) -> Iterator[tuple[Labels, Number]]:
        quorum = self._broker.metadata.quorum
        end = max((each.log_end_offset for each in quorum.voters), default=0)
        for each in (*quorum.voters, *quorum.observers):
            yield (str(each.replica_id),), max(end - each.log_end_offset, 0)

    # Logs and disk

    def _report_logs(self, metrics: Metrics) -> None:
        labels, health = ("topic", "partition"), self._broker.logs.data_dir.health
        metrics.gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Data directories that are offline.",
            lambda: int(health.offline_reason is not None),
        )
        details: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
            ("kafka_log_log_size", "Bytes of a replica that this node has.", _size_of),
            ("kafka_log_log_logstartoffset", "Where the log of a replica starts.", _start_of),
            ("kafka_log_log_logendoffset", "Where the log of a replica ends.", _end_of),
        )
        for name, doc, of in details:
            metrics.family(name, doc, labels, self._detail(self._held, of), is_detail=True)
        metrics.family(
            "kafka_topic_partition_oldest_offset",
            "The first offset of a partition that this node leads.",
            labels,
            self._detail(self._led, _start_of),
            is_detail=True,
        )
        metrics.family(
            "kafka_topic_partition_current_offset",
            "The high watermark of a partition that this node leads.",
            labels,
            self._detail(self._led, lambda each: each.high_watermark),
            is_detail=True,
        )
        metrics.gauge("disk_free_bytes", "Free space where the data is; -1: unknown.", lambda: self.space.usable_bytes)
        metrics.gauge("disk_total_bytes", "All space where the data is; -1: unknown.", lambda: self.space.total_bytes)
        metrics.gauge(
            "transactions_hanging",
            "Transactions that are open in partitions led here although their time is over: nobody will end them.",
            lambda: self.hanging,
        )

    def _detail(
        self, partitions: Callable[[], Iterator[Partition]], of: Callable[[Partition], int]
    ) -> Callable[[], Iterator[tuple[Labels, Number]]]:
        return lambda: (((each.name.topic, str(each.name.partition)), of(each)) for each in partitions())

    # The process

    def _report_process(self, metrics: Metrics) -> None:
        metrics.gauge("process_resident_memory_bytes", "Memory of this process.", resident_bytes)
        metrics.counter("process_cpu_seconds_total", "Processor time of this process.", time.process_time)


def _size_of(partition: Partition) -> int:
    return 0 if partition.held_log is None else partition.held_log.size


def _start_of(partition: Partition) -> int:
    return 0 if partition.held_log is None else partition.held_log.log_start_offset


def _end_of(partition: Partition) -> int:
    return 0 if partition.held_log is None else partition.held_log.end_offset


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
