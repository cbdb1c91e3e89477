"""Headers that librdkafka's Python binding cannot give: those with a name that is not UTF-8, which brokers take.

They are read once more, by our own way. What is wrong in a name is kept as surrogate escapes, so that the bytes that
were written can be had: ``name.encode("utf-8", "surrogateescape")``.
"""

from typing import Any, Final

from barnabas.client.fetcher import Fetcher
from barnabas.client.settings import Settings
from barnabas.core.records.batch import check_batch, iter_whole_batches
from barnabas.core.records.record import Header, decode_record

_ONE_BATCH: Final = 1  # byte: the broker gives at least one batch, however large that is


def read_headers(message: Any, settings: Settings) -> tuple[Header, ...]:
    """The headers of the record that a message of librdkafka's is; none when it was deleted meanwhile."""
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
