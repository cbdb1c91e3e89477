"""Orders as a shop would send them: by customer, at a steady rate, a few broken. Knows the expected sums."""

import json
import random
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Final

from barnabas.client import Bus

COUNTRIES: Final = ("AT", "BE", "CZ", "DE", "FR", "IT", "NL", "PL")
CUSTOMERS: Final = 5_000
BROKEN_SHARE: Final = 0.01


class OrderStream:
    """Sends orders from a thread for a given time."""

    def __init__(self, bus: Bus, topic: str, *, seconds: float, rate: int, seed: int) -> None:
        self._bus = bus
        self._topic = topic
        self._seconds = seconds
        self._rate = rate
        self._dice = random.Random(seed)
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.sent = 0
        self.broken = 0
        self.cents: Counter[str] = Counter()  # by country, of the good ones
        self.failure: Exception | None = None

    @property
    def total(self) -> int:
        return int(self._seconds * self._rate)

    @property
    def good(self) -> int:
        return self.sent - self.broken

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def send_first(self, count: int) -> None:
        """Send some orders at once, to warm up the consumers."""
        self._send(min(count, self.total))
        self._bus.flush(60)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._send_all()
        except Exception as error:  # shown by whoever waits for the stream
            self.failure = error

    def _send_all(self) -> None:
        begin, first = time.monotonic(), self.sent
        while self.sent < self.total:
            self._send(min(first + int((time.monotonic() - begin) * self._rate) + 1, self.total))
            time.sleep(0.01)
        self._bus.flush(60)

    def _send(self, up_to: int) -> None:
        for number in range(self.sent, up_to):
            self._bus.send(self._topic, self._make(number), key=f"customer-{number % CUSTOMERS}")
            self.sent += 1

    def _make(self, number: int) -> str:
        country = self._dice.choice(COUNTRIES)
        cents = int(self._dice.lognormvariate(8, 1))
        order = {"order": number, "country": country, "cents": cents, "at": datetime.now(UTC).isoformat()}
        if self._dice.random() < BROKEN_SHARE:
            self.broken += 1
            return self._break(order)
        self.cents[country] += cents
        return json.dumps(order)

    def _break(self, order: dict[str, object]) -> str:
        """Truncate the order, give it a wrong type or an invalid value."""
        how = self._dice.randrange(3)
        if how == 0:
            return json.dumps(order)[:-20]
        return json.dumps({**order, "cents": "a lot" if how == 1 else -1})
