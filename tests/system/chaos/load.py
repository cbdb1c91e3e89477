"""Clients that work while nodes fail: what all of them share, and those that write numbered records.

Every client is a thread with a librdkafka of its own, in its default settings but for what it is there to do. What
reaches its application is noted: in `troubles` what librdkafka reported, in `bugs` what must not happen at all.
"""

import sys
import threading
import time
import traceback
from collections import Counter
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

RECORDS: Final = "chaos-records"
RECORD_PARTITIONS: Final = 6
_PACE_S: Final = 0.1
_PER_TURN: Final = 10
_IN_FLIGHT: Final = 1_000
STOP_S: Final = 90.0


class Client(threading.Thread):
    """One client; `work` runs again and again until `stop`."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "log_level": 0,
            "error_cb": self._note_error,
        }
        self.troubles: Counter[str] = Counter()
        self.bugs: list[str] = []
        self.done = 0
        """How many pieces of work were acknowledged."""
        self.longest_s = 0.0
        """The longest time from one acknowledgement to the next."""
        self.longest_at = 0.0
        """When it ended."""
        self._last = time.monotonic()
        self._is_over = threading.Event()

    def work(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for what is under way, and close."""
        raise NotImplementedError

    def run(self) -> None:
        self._last = time.monotonic()
        try:
            while not self._is_over.is_set():
                try:
                    self.work()
                except KafkaException as error:
                    self.note_trouble(error)
                    self._is_over.wait(_PACE_S)
            self.finish()
        except BaseException:
            self.bugs.append(f"{self.name} ended: {traceback.format_exc()}")

    def begin_stop(self) -> None:
        self._is_over.set()

    def stop(self) -> None:
        self._is_over.set()
        self.join(STOP_S)
        if self.is_alive():
            where = traceback.format_stack(sys._current_frames()[self.ident or 0])
            self.bugs.append(f"{self.name} did not come to its end in {STOP_S:.0f} s: {''.join(where[-2:])}")

    def note_done(self, count: int = 1) -> None:
        now = time.monotonic()
        if now - self._last > self.longest_s:
            self.longest_s, self.longest_at = now - self._last, now
        self._last = now
        self.done += count

    def note_trouble(self, error: KafkaException) -> None:
        self.troubles[error.args[0].name()] += 1

    def _note_error(self, error: Any) -> None:
        # Connections that break are for librdkafka to mend; a fatal error is the end of a client.
        if error.fatal():
            self.bugs.append(f"{self.name}: {error.name()}: {error.str()}")


class Acked(NamedTuple):
    """Where a numbered record was acknowledged."""

    number: int
    offset: int | None  # None: of a retry, which the broker knows only as such


class Writer(Client):
    """An idempotent producer with acks=all that writes the numbers from 0 on, by turns to all partitions."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self.acked: list[list[Acked]] = [[] for _ in range(RECORD_PARTITIONS)]
        self._number = 0
        self._producer = Producer({**self.settings, "enable.idempotence": True, "acks": "all"})

    def work(self) -> None:
        for _ in range(_PER_TURN if len(self._producer) < _IN_FLIGHT else 0):
            number, self._number = self._number, self._number + 1
            self._producer.produce(
                RECORDS,
                f"{self.name} {number}".encode(),
                partition=number % RECORD_PARTITIONS,
                on_delivery=self._note_delivery,
            )
        self._producer.poll(0)
        self._is_over.wait(_PACE_S)
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(STOP_S)
        if left:
            self.bugs.append(f"{self.name}: {left} records are neither acknowledged nor refused")

    def _note_delivery(self, error: Any, message: Any) -> None:
        number = int(message.value().rpartition(b" ")[2])
        if error is not None:
            self.bugs.append(f"{self.name}: record {number} was refused: {error.name()}")
            return
        self.acked[message.partition()].append(Acked(number, message.offset()))
        self.note_done()
