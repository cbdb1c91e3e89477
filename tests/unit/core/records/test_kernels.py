"""The native index: its rows say what the records say, and it works where nothing can be cached."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import barnabas
from barnabas.core.errors import CorruptRecord
from barnabas.core.records import checking, kernels
from barnabas.core.records.batch import HEADER_SIZE, Buffer, read_header
from barnabas.core.records.record import Record, decode_batch, encode_batch, payload
from tests.support.examples import examples
from tests.unit.core.records.forgery import LIES
from tests.unit.core.records.strategies import batches


def slice_of(data: Buffer, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(data[start : start + length])


@settings(max_examples=examples(100), deadline=None)
@given(batches())
def test_each_row_says_where_a_record_is_and_what_it_has(batch: bytearray) -> None:
    header = read_header(batch)
    data = payload(batch, 0, header)
    index = kernels.index_batch(data, header)
    records = decode_batch(batch)
    assert index.shape == (len(records), kernels.INDEX_WIDTH)
    position = 0
    for row, record in zip(index.tolist(), records, strict=True):
        assert row[kernels.START] == position
        position = row[kernels.END]
        assert row[kernels.OFFSET] == record.offset
        assert row[kernels.TIMESTAMP] == record.timestamp
        assert slice_of(data, row[kernels.KEY_START], row[kernels.KEY_LENGTH]) == record.key
        assert slice_of(data, row[kernels.VALUE_START], row[kernels.VALUE_LENGTH]) == record.value
        assert row[kernels.HEADER_COUNT] == len(record.headers)
        assert row[kernels.HEADERS_START] <= position
    assert position == len(data)


def test_records_copied_by_their_rows_make_a_batch_again() -> None:
    records = [Record(n, n, b"k%d" % n, None if n % 3 else b"v", (("h", b"x"),)) for n in range(100)]
    batch = encode_batch(records)
    header = read_header(batch)
    data = payload(batch, 0, header)
    index = kernels.index_batch(data, header)
    tombstones = index[index[:, kernels.VALUE_LENGTH] < 0]
    kept = b"".join(bytes(data[row[kernels.START] : row[kernels.END]]) for row in tombstones)
    cleaned = header._replace(batch_length=HEADER_SIZE - 12 + len(kept), record_count=len(tombstones))
    assert kernels.index_batch(kept, cleaned)[:, kernels.OFFSET].tolist() == [n for n in range(100) if n % 3]


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_about_its_records_is_corrupt(lie: str) -> None:
    header = read_header(LIES[lie])
    with pytest.raises(CorruptRecord):
        kernels.index_batch(memoryview(LIES[lie])[HEADER_SIZE:], header)


def test_the_refusal_names_the_record_and_what_is_wrong() -> None:
    batch = encode_batch([Record(n, 0, b"k", b"v") for n in range(3)])
    batch[-2] = 0x7E  # where the last value begins: its length comes before it
    batch[-3] = 0x7E
    with pytest.raises(CorruptRecord, match="record 2 of the batch at offset 0 has a value that does not fit"):
        kernels.index_batch(memoryview(batch)[HEADER_SIZE:], read_header(batch))


def test_no_row_is_written_beyond_the_room_there_is() -> None:
    batch = encode_batch([Record(n, 0, None, None) for n in range(3)])
    data = np.frombuffer(batch, np.uint8)
    out = np.zeros((2, kernels.INDEX_WIDTH), np.int64)
    assert kernels.index_records(data, HEADER_SIZE, len(data), 3, 0, 2, 0, out, 0) != checking.OK
    assert kernels.index_records(data, HEADER_SIZE, len(data) + 1, 2, 0, 2, 0, out, 0) != checking.OK
    assert kernels.index_records(data, HEADER_SIZE, len(data), 2, 0, 2, 0, out, 1) != checking.OK
    assert not out.any()


def test_an_output_that_is_too_small_is_not_overrun() -> None:
    batch = encode_batch([Record(0, 0, b"four", None)])
    index = kernels.index_batch(memoryview(batch)[HEADER_SIZE:], read_header(batch))
    data = np.frombuffer(batch, np.uint8)[HEADER_SIZE:]
    out, ends, valid = np.zeros(3, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    assert kernels.gather_bytes(data, index, kernels.KEY_START, out, 0, ends, valid) == -1
    assert not out.any()


def test_the_kernels_compile_where_no_directory_can_be_written(tmp_path: Path) -> None:
    package = Path(barnabas.__file__).parent
    copy = tmp_path / "barnabas"
    records = copy / "core" / "records"
    records.mkdir(parents=True)
    for file in ("__init__.py", "core/__init__.py", "core/model.py"):
        shutil.copy(package / file, copy / file)
    shutil.copytree(package / "core" / "errors", copy / "core" / "errors", ignore=shutil.ignore_patterns("__pycache__"))
    for source in (package / "core" / "records").glob("*.py"):
        shutil.copy(source, records)
    # A file where the cache directory should be stands in for a read-only disk: it stops root as well.
    (records / "__pycache__").write_bytes(b"")
    nowhere = str(tmp_path / "barnabas" / "__init__.py" / "nowhere")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": nowhere,
        "XDG_CACHE_HOME": nowhere,
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    program = (
        "from barnabas.core.records import kernels;"
        "print(kernels.__file__, kernels.index_records.stats.cache_path)"  # numba's own account of its cache
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(records / "kernels.py"), "None"]
