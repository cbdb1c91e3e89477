"""What it costs others that logs are read through in the background: one broker with that on and off, in turns.

The broker rests for a minute after it has started, and so does this. What is written here goes to the page cache, whose
writing back to disk moves the figures by more than the target: measure on a quiet machine with a disk to itself.
"""

import time
from collections.abc import Callable, Iterator

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from bench import native_client
from bench.measure import Row, compare, rate
from bench.served import Served, served

TARGET = 0.97
RATE = 4 * 1024 * 1024
AFTER_START_S = 62
TOPIC = "scrubbed"


def rows(*, quick: bool) -> Iterator[Row]:
    if native_client.build() is None:
        yield Row("produce and consume while logs are read through", "no C compiler or no librdkafka here")
        return
    count = 20_000 if quick else 300_000
    with served("log.flush.policy=os", f"log.scrub.bytes.per.second={RATE}") as broker:
        _run(broker, "produce", 500_000)
        time.sleep(0 if quick else AFTER_START_S)
        yield _row(broker, "produce", count)
        yield _row(broker, "consume", count)


def _run(broker: Served, what: str, count: int) -> float:
    return native_client.run(what, broker.bootstrap, TOPIC, str(count), "1000", "1")


def _row(broker: Served, what: str, count: int) -> Row:
    def with_rate(bytes_per_second: int) -> Callable[[], float]:
        def run() -> float:
            _set_rate(broker, bytes_per_second)
            return _run(broker, what, count)

        return run

    found = compare(with_rate(RATE), with_rate(0), amount=count, rounds=7)
    return Row(
        f"{what} 1 kB, native client, os, logs read through at 4 MB/s",
        rate(found.ours, "records/s"),
        f"not read through {rate(found.limit, 'records/s')}",
        found.ratio,
        TARGET,
    )


def _set_rate(broker: Served, bytes_per_second: int) -> None:
    entry = ConfigEntry(
        "log.scrub.bytes.per.second", str(bytes_per_second), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
