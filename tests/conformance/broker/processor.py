"""A processor to be killed at work: copies what it reads, each chunk in a transaction. For test_transaction_processing.

What it writes says where it read it: partition and offset.
"""

import sys
from typing import Final

from tests.conformance.broker.group_members import MEMBERS, Got
from tests.conformance.broker.transactional import PRODUCER_OF, PRODUCERS, TransactionalProducer

CHUNK: Final = 20


def main(bootstrap: str, source: str, sink: str, kind: str) -> None:
    member = MEMBERS[kind](bootstrap, source, source)
    producer = PRODUCERS[PRODUCER_OF[kind]](bootstrap, source)
    while True:
        got = member.poll()
        for first in range(0, len(got), CHUNK):
            chunk = got[first : first + CHUNK]
            producer.begin()
            copy(producer, sink, chunk)
            producer.send_offsets(source, {each.partition: each.offset + 1 for each in chunk}, member.metadata)
            producer.commit()


def copy(producer: TransactionalProducer, sink: str, chunk: list[Got]) -> None:
    for each in chunk:
        producer.send(sink, each.partition, b"%d %d" % (each.partition, each.offset))


if __name__ == "__main__":
    main(*sys.argv[1:])
