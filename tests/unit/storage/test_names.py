"""What the files and directories of a data directory are called."""

import pytest

from barnabas.core.model import TopicPartition
from barnabas.storage.names import (
    INDEX,
    LOG,
    base_offset_of,
    parent_of,
    parse_partition,
    parse_swap,
    segment_file,
    swap_file,
)


def test_a_segment_is_named_by_its_base_offset_in_twenty_digits() -> None:
    assert segment_file("/data/t-0", 4711, LOG) == "/data/t-0/00000000000000004711.log"
    assert segment_file("/data/t-0", 2**63 - 1, INDEX) == "/data/t-0/09223372036854775807.index"


@pytest.mark.parametrize(
    ("name", "base_offset"),
    [
        ("00000000000000004711.log", 4711),
        ("00000000000000000000.log", 0),
        ("4711.log", None),
        ("00000000000000004711.index", None),
        ("00000000000000004711.log.tmp", None),
        ("0000000000000000471x.log", None),
        (".log", None),
    ],
)
def test_the_base_offset_is_read_back_from_a_name(name: str, base_offset: int | None) -> None:
    assert base_offset_of(name, LOG) == base_offset


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a-0-delete", None),
        ("a-007", None),
        ("-1", None),
        ("orders", None),
        ("orders-", None),
        ("recovery-point-offset-checkpoint", None),
    ],
)
def test_a_partition_is_read_back_from_the_name_of_its_directory(name: str, partition: TopicPartition | None) -> None:
    assert parse_partition(name) == partition
    if partition is not None:
        assert str(partition) == name


def test_a_swap_file_says_which_segments_it_replaces() -> None:
    name = swap_file("/data/t-0", 100, 300).rpartition("/")[2]
    assert parse_swap(name) == (100, 300)
    assert parse_swap("00000000000000000100.log") is None
    assert base_offset_of(name, LOG) is None


@pytest.mark.parametrize(
    ("path", "parent"), [("/data/t-0", "/data"), ("/data", "/"), ("data/t-0", "data"), ("data", ".")]
)
def test_the_parent_of_a_path(path: str, parent: str) -> None:
    assert parent_of(path) == parent
