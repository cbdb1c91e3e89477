"""A poisoned batch on disk stops a consumer; `barnabas topic repair` steps over it, and the consumer goes on."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka

from barnabas.core.records.batch import HEADER_SIZE, seal
from barnabas.core.records.record import Record, encode_batch
from tests.support.ports import NOW_MS
from tests.system.running import Client, create_topic, produce, running

PATIENCE_S = 60.0
STOPPED_S = 2.0
"""A consumer without a record for so long has stopped: what is behind the poisoned batch is in the same answer."""
REPAIR = [sys.executable, "-m", "barnabas.cli.main", "topic", "repair", "orders", "--yes"]


def batch(value: bytes) -> bytes:
    return bytes(encode_batch([Record(0, NOW_MS, b"key", value)]))


def poison() -> bytes:
    made = bytearray(batch(b"poison"))
    made[HEADER_SIZE] = made[HEADER_SIZE + 5] = 0x7E  # the lengths of the record and of its key: 63
    seal(made, 0, len(made))
    return bytes(made)


def consumed(port: int, count: int, *, group: str, patience_s: float = PATIENCE_S) -> list[bytes | None]:
    """Up to `count` values; fewer if the consumer stops."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    try:
        values: list[bytes | None] = []
        while len(values) < count:
            message = consumer.poll(patience_s if values else PATIENCE_S)
            if message is None or message.error() is not None:
                return values
            values.append(message.value())
        return values
    finally:
        consumer.close()


def test_a_consumer_goes_on_after_a_poisoned_batch_was_stepped_over(tmp_path: Path) -> None:
    with running(tmp_path, log_record_validation="none") as node:
        create_topic(node.port, "orders")
        with Client(node.port) as client:
            for made in (batch(b"before"), poison(), batch(b"after")):
                assert produce(client, "orders", made).error_code.value == 0
        assert consumed(node.port, 2, group="stopped", patience_s=STOPPED_S) == [b"before"]

    done = subprocess.run([*REPAIR, "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n0\t1-1\t" in done.stdout

    with running(tmp_path) as node:
        assert consumed(node.port, 2, group="going-on") == [b"before", b"after"]
        with Client(node.port) as client:
            assert produce(client, "orders", poison()).error_code.value == 87
