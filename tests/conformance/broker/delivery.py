"""A reader to be killed: says each record's offset, and stops with the seventh in hand. For test_groups."""

import sys
import time

from barnabas.client import Bus
from tests.conformance.broker.group_members import SESSION_MS

LAST = 6


def main(bootstrap: str, topic: str, mode: str) -> None:
    config = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "200"}
    bus = Bus(bootstrap, config=config)
    for record in bus.consume(topic, group=topic, mode=mode, max_poll_records=2):  # type: ignore[arg-type]
        print(record.offset, flush=True)
        if record.offset == LAST:
            time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
