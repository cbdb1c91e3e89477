"""Headers that librdkafka's Python binding cannot return: those with a name that is not UTF-8, which brokers accept.

They are read once more over our own connection. Invalid bytes in a name become surrogate escapes, so that the original
bytes can be restored: ``name.encode("utf-8", "surrogateescape")``.
"""

from typing import Any, Final

from barnabas.client.fetcher import Fetcher
from barnabas.client.settings import Settings
from barnabas.core.records.batch import check_batch, iter_whole_batches
from barnabas.core.records.record import Header, decode_record

_ONE_BATCH: Final = 1  # byte: the broker gives at least one batch, however large that is


def read_headers(message: Any, settings: Settings) -> tuple[Header, ...]:
    """The headers of the record that a librdkafka message stands for; none if it was deleted meanwhile."""
    partition, offset = message.partition(), message.offset()
    fetcher = Fetcher(settings, message.topic(), committed=False, partition_max_bytes=_ONE_BATCH)
    try:
        for fetched in fetcher.read({partition: (offset, offset + 1)}):
            for position, header in iter_whole_batches(fetched.records):
                if header.base_offset <= offset <= header.last_offset:
                    check_batch(fetched.records, position, header)
                    record = decode_record(fetched.records, position, header, offset)
                    return () if record is None else tuple(record.headers)
    finally:
        fetcher.close()
    return ()
