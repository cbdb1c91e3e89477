"""Headers whose names are not UTF-8, in the files of a log: compaction keeps them, and repair finds nothing wrong."""

import pytest

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.storage.compaction import Engine
from barnabas.storage.repair import find_unreadable
from tests.unit.storage.compaction.support import CONFIG, NOW, PARTITION, CompactedLog

HEADERS = (("a\udcff", b"1"), ("plain", None))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("engine", list(Engine))
def test_they_are_kept_as_they_are(codec: Codec, engine: Engine) -> None:
    log = CompactedLog(CONFIG)
    records = [Record(number, NOW, key, b"v", HEADERS) for number, key in enumerate((b"a", b"b", b"a"))]
    log.log.append(encode_batch(records, codec=codec), leader_epoch=0, now_ms=NOW)
    log.roll()
    log.compact(engine=engine)
    kept = [
        record for segment in log.log.segments for batch in segment.batches() for record in decode_batch(batch.data)
    ]
    assert [(record.key, record.headers) for record in kept] == [(b"b", HEADERS), (b"a", HEADERS)]
    log.data_dir.close()
    assert list(find_unreadable(log.disk, "/data", PARTITION)) == []
