"""`meta.properties`: Kafka's lines, refused when damaged."""

from uuid import UUID

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.storage import meta_properties
from barnabas.storage.meta_properties import MetaProperties
from barnabas.testing.disk import SimulatedDisk

PATH = "/data/meta.properties"
META = MetaProperties("5L6g3nShT-eMCtK--X86sw", 3, UUID(int=7))


def disk_with(data: bytes | None) -> SimulatedDisk:
    disk = SimulatedDisk(1)
    disk.make_dir("/data")
    if data is not None:
        disk.open(PATH, create=True).write(0, data)
    return disk


def test_what_is_written_is_read_and_are_kafkas_lines() -> None:
    disk = disk_with(None)
    meta_properties.write(disk, "/data", META)
    assert meta_properties.read(disk, "/data") == META
    lines = disk.open(PATH).read(0, 1000).decode().splitlines()
    assert lines == [
        "cluster.id=5L6g3nShT-eMCtK--X86sw",
        "directory.id=AAAAAAAAAAAAAAAAAAAABw",
        "node.id=3",
        "version=1",
    ]


@pytest.mark.parametrize("cluster_id", ["ours", "our cluster", "a=b#c\\d", "höhle 🦉", "\n"])
def test_any_cluster_id_is_read_as_it_was_written(cluster_id: str) -> None:
    disk = disk_with(None)
    meta_properties.write(disk, "/data", META._replace(cluster_id=cluster_id))
    assert meta_properties.read(disk, "/data") == META._replace(cluster_id=cluster_id)


def test_the_file_that_kafka_writes_is_read() -> None:
    text = b"#\n#Tue Nov 17\ncluster.id=a\\:b\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\nnode.id=3\nversion=1\n"
    assert meta_properties.read(disk_with(text), "/data") == META._replace(cluster_id="a:b")


@pytest.mark.parametrize("data", [None, b"version=1\n"])
def test_no_file_or_that_of_an_earlier_version_is_no_identity(data: bytes | None) -> None:
    assert meta_properties.read(disk_with(data), "/data") is None


def test_every_beginning_of_the_file_but_all_of_it_is_damage() -> None:
    disk = disk_with(None)
    meta_properties.write(disk, "/data", META)
    whole = disk.open(PATH).read(0, 1000)
    for size in range(len(whole) - 1):
        with pytest.raises(CorruptLog, match=r"meta\.properties is damaged .* Restore it from a backup"):
            meta_properties.read(disk_with(whole[:size]), "/data")


@pytest.mark.parametrize(
    "text",
    [
        "version=0\nbroker.id=1\n",
        "version=2\ncluster.id=a\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n",
        "version=1\ncluster.id=a\nnode.id=-1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n",
        "version=1\ncluster.id=a\nnode.id=1\ndirectory.id=short\n",
        "version=1\ncluster.id=a\nnode.id=1\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n",
        "no properties",
    ],
)
def test_other_contents_are_damage(text: str) -> None:
    with pytest.raises(CorruptLog):
        meta_properties.read(disk_with(text.encode()), "/data")
