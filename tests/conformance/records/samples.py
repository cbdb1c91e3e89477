"""The records that go through every client: each field absent, empty and present, and enough to compress."""

from typing import Final

from barnabas.core.records.record import Record

CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
START_MS: Final = 1_700_000_000_000


def sample_records(count: int = 400) -> list[Record]:
    shapes: list[tuple[bytes | None, bytes | None]] = [
        (b"key", b"value"),
        (None, b"no key"),
        (b"no value", None),
        (b"", b"empty key"),
        (b"empty value", b""),
        (None, None),
        (b"large", bytes(range(256)) * 40),
    ]
    headers = (("trace", b"0123456789"), ("none", None), ("empty", b""), ("naïve ✓", b"\x00\xff"))
    return [
        Record(offset, START_MS + 10 * offset, *shapes[offset % len(shapes)], headers[: offset % 5])
        for offset in range(count)
    ]
