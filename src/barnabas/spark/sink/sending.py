"""Encoding and sending the rows of a share, in a transaction or, at least once, without."""

from collections.abc import Iterable
from typing import Any

from barnabas.client.batch_producer import BatchProducer, Producer
from barnabas.client.batch_transactions import BatchTransaction, new_producer
from barnabas.client.brokers import Brokers
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout
from barnabas.spark.sink.encoding import Encoded, RowEncoder
from barnabas.spark.sink.identity import RowDigest
from barnabas.spark.sink.options import WriteOptions, settings_key
from barnabas.spark.sink.shares import ShareRows
from barnabas.spark.sink.steps import TopicStep


class Sender:
    """Encodes and sends the rows of a producer."""

    def __init__(
        self, brokers: Brokers, options: WriteOptions, producer: Producer, transaction: BatchTransaction | None
    ) -> None:
        batching = options.batching
        self._options = options
        self._brokers = brokers
        self._transaction = transaction
        self._transport = BatchProducer(
            brokers,
            producer,
            transactional_id=None if transaction is None else transaction.id,
            delivery_s=batching.delivery_s,
            contact_s=options.contact_s,
            ack_timeout_ms=batching.ack_timeout_ms,
        )

    def begin_anew(self, producer: Producer) -> None:
        """Send for another producer from now on."""
        self._transport.begin_anew(producer)

    def send(self, rows: ShareRows, layout: Layout, digest: RowDigest | None = None) -> int:
        """Send all rows, including those of batches that are not full; returns their number."""
        batching = self._options.batching
        self._transport.forget_counts()  # this may be kept for as long as its query runs
        encoder = RowEncoder(
            layout,
            self._count_partitions,
            batch_bytes=batching.batch_bytes,
            codec=batching.codec,
            level=batching.level,
        )
        row_count = 0
        for batch in rows:
            self._send_encoded(encoder.encode(batch))
            steps.reached(TopicStep.PART_SENT)
            row_count += batch.num_rows
            if digest is not None:
                digest.add(batch)
        self._send_encoded(encoder.rest())
        return row_count

    def flush(self) -> None:
        self._transport.flush()

    def close(self) -> None:
        self._transport.close()
        self._brokers.close()

    def _send_encoded(self, encoded: Iterable[Encoded]) -> None:
        if self._transaction is None:
            for key, batch in encoded:
                self._transport.send(key, batch)
            return
        ready = list(encoded)
        self._transaction.add(key for key, _ in ready)
        for key, batch in ready:
            self._transport.send(key, batch)

    def _count_partitions(self, topic: str, wanted: int) -> int:
        """How many partitions a topic has; looked up again for one that it did not have."""
        if wanted >= self._transport.partition_count(topic):
            self._transport.look_up(topic)
        return self._transport.partition_count(topic)


_senders: dict[Any, Sender] = {}  # of this process, at least once


def send_at_least_once(options: WriteOptions, layout: Layout, rows: ShareRows) -> int:
    """Send all rows and wait until they are acknowledged; a share that is run again is sent again."""
    key = settings_key(options)
    sender = _senders.pop(key, None) or _new_sender(options)
    try:
        row_count = sender.send(rows, layout)
        sender.flush()
    except BaseException:
        sender.close()
        raise
    _senders[key] = sender
    return row_count


def _new_sender(options: WriteOptions) -> Sender:
    brokers = Brokers(options.settings)
    try:
        return Sender(brokers, options, new_producer(brokers, options.contact_s), None)
    except BaseException:
        brokers.close()
        raise
