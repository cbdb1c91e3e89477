"""Data directories that are formatted, formed at a first start, or of an earlier version; with crashes in between."""

from typing import Any
from uuid import UUID

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ClusterRecord, NodeRecord, encode_record
from barnabas.core.raft.control_records import encode_control
from barnabas.core.raft.output import KRaftVersion, Voters
from barnabas.core.raft.voters import BOOTSTRAP_OFFSET, ReplicaKey, Voter, VotersAt, VoterSet
from barnabas.core.uuids import id_text
from barnabas.runtime.metadata_log import METADATA_LOG_CONFIG
from barnabas.services.formation import Formed, configured_voters, open_data_dir
from barnabas.services.formatting import check_unformatted, format_directory, initial_voters
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage import meta_properties
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotId
from barnabas.testing.dice import SimulatedDice, derive_random
from barnabas.testing.disk import SimulatedCrash, SimulatedDisk

META = MetaProperties("ours", 1, UUID(int=9))
STOCK = {
    "log.dirs": "/data",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def config(**others: str) -> BrokerConfig:
    return BrokerConfig.from_properties({**STOCK, **{name.replace("_", "."): text for name, text in others.items()}})


def opened(disk: SimulatedDisk, settings: BrokerConfig, *, seed: int = 1) -> Formed:
    return open_data_dir(disk, settings, SimulatedDice(derive_random(seed, "dice")), max_open_files=64)


def test_a_format_that_is_interrupted_anywhere_is_none_or_whole_and_can_be_repeated() -> None:
    voters = initial_voters(config(), META.directory_id, is_standalone=True, controllers=None, joins_later=False)
    measured = SimulatedDisk(1)
    format_directory(measured, "/data", META, voters)
    assert measured.mutations > 10
    for step in range(measured.mutations):
        disk = SimulatedDisk(step)
        disk.crash_after(step)
        with pytest.raises(SimulatedCrash):
            format_directory(disk, "/data", META, voters)
        disk.crash()
        meta = META
        if check_unformatted(disk, "/data") is None:
            meta = META._replace(directory_id=UUID(int=10))
            again = initial_voters(config(), meta.directory_id, is_standalone=True, controllers=None, joins_later=False)
            format_directory(disk, "/data", meta, again)
            disk.crash()
        found = opened(disk, config())
        assert found.meta == meta
        log = found.data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
        loaded = load_metadata(log, replica=ReplicaKey(1, meta.directory_id))
        assert loaded.snapshot is None
        assert [each.offset for each in loaded.voters] == [BOOTSTRAP_OFFSET]
        assert loaded.voters[0].voters.node_ids == (1,)
        assert loaded.is_sole_voter


def test_a_first_start_that_is_interrupted_anywhere_forms_one_cluster() -> None:
    measured = SimulatedDisk(1)
    opened(measured, config())
    for step in range(measured.mutations):
        disk = SimulatedDisk(step)
        disk.crash_after(step)
        with pytest.raises(SimulatedCrash):
            opened(disk, config())
        disk.crash()
        before = meta_properties.read(disk, "/data")
        formed = opened(disk, config(), seed=2)
        assert before in (None, formed.meta)
        disk.crash()
        # Between the identity and the first commit: nothing else is there, and it is the same cluster.
        assert opened(disk, config(), seed=3).meta == formed.meta
        assert configured_voters(config(), formed.meta).node_ids == (1,)


def test_what_an_interrupted_format_left_does_not_become_the_voters_of_another_directory() -> None:
    disk = SimulatedDisk(1)
    voters = initial_voters(config(), META.directory_id, is_standalone=True, controllers=None, joins_later=False)
    format_directory(disk, "/data", META, voters)
    disk.remove("/data/meta.properties")
    formed = opened(disk, config())
    log = formed.data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
    assert load_metadata(log, replica=ReplicaKey(1, formed.meta.directory_id)).voters == []


def test_an_unformatted_directory_of_one_of_several_is_refused_and_nothing_is_made() -> None:
    disk = SimulatedDisk(1)
    several = config(controller_quorum_voters="1@a:9093,2@b:9093,3@c:9093")
    with pytest.raises(InvalidConfig, match="run barnabas format"):
        opened(disk, several)
    assert not disk.exists("/data")
    assert configured_voters(several, META).node_ids == (1, 2, 3)
    format_directory(
        disk,
        "/data",
        META,
        initial_voters(several, META.directory_id, is_standalone=False, controllers=None, joins_later=False),
    )
    assert opened(disk, several).meta == META


def test_a_node_of_a_formed_cluster_starts_whatever_its_bootstrap_servers_are() -> None:
    disk = SimulatedDisk(1)
    formed = opened(disk, config())
    assert opened(disk, config(controller_quorum_bootstrap_servers="far:1")).meta == formed.meta
    with pytest.raises(InvalidConfig, match=r"node\.id is 2, .* neither can change"):
        opened(disk, config(node_id="2"))


def test_voters_are_said_once_and_in_one_way() -> None:
    fixed = config(controller_quorum_voters="1@a:9093,2@b:9093")
    cases: list[tuple[BrokerConfig, dict[str, Any]]] = [
        (config(), {}),
        (config(), {"is_standalone": True, "joins_later": True}),
        (config(), {"joins_later": True}),
        (fixed, {"is_standalone": True}),
        (config(), {"controllers": "1@a:9093"}),
        (config(), {"controllers": "1@a:0:AAAAAAAAAAAAAAAAAAAABw"}),
        (config(), {"controllers": "1@a:1:AAAAAAAAAAAAAAAAAAAABw,1@b:1:AAAAAAAAAAAAAAAAAAAABw"}),
    ]
    for settings, ways in cases:
        given: dict[str, Any] = {"is_standalone": False, "controllers": None, "joins_later": False, **ways}
        with pytest.raises(InvalidConfig):
            initial_voters(settings, UUID(int=1), **given)


def test_a_directory_of_an_earlier_version_holds_its_identity_from_its_first_start_on() -> None:
    disk = SimulatedDisk(1)
    DataDir(disk, "/data").create_log(METADATA_PARTITION, METADATA_LOG_CONFIG).flush()
    formed = opened(disk, config())
    assert opened(disk, config(), seed=5).meta == formed.meta
    assert VotersAt(BOOTSTRAP_OFFSET, configured_voters(config(), formed.meta)).voters.node_ids == (1,)


def test_a_voter_that_has_lost_its_identity_is_told_how_to_get_it_back() -> None:
    disk = SimulatedDisk(1)
    format_directory(disk, "/data", META, VoterSet(()))
    voters = VoterSet.of(Voter(ReplicaKey(node_id, UUID(int=node_id + 8))) for node_id in (1, 2))
    log = opened(disk, config()).data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
    log.append_as_follower(encode_control([KRaftVersion(1), Voters(voters)], base_offset=0, epoch=1, timestamp_ms=0))
    log.flush()
    disk.remove("/data/meta.properties")

    for _ in range(2):
        with pytest.raises(InvalidConfig, match=f"directory.id={id_text(META.directory_id)}"):
            opened(disk, config())
    assert meta_properties.read(disk, "/data") is None

    meta_properties.write(disk, "/data", META)
    assert opened(disk, config()).meta == META


def test_a_broker_that_has_lost_its_identity_is_not_taken_for_a_new_one() -> None:
    """Under a new directory id it would count as one whose disk is lost, and not lead what it alone has."""
    settings = BrokerConfig.from_properties(
        {
            "log.dirs": "/data",
            "node.id": "1",
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": "elsewhere:9093",
            "controller.listener.names": "CONTROLLER",
            "cluster.id": "ours",
        }
    )
    disk = SimulatedDisk(1)
    format_directory(disk, "/data", META, VoterSet(()))
    log = opened(disk, settings).data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
    voters = Voters(VoterSet.of([Voter(ReplicaKey(2, UUID(int=2)))]))
    log.append_as_follower(encode_control([KRaftVersion(1), voters], base_offset=0, epoch=1, timestamp_ms=0))
    log.flush()
    disk.remove("/data/meta.properties")

    with pytest.raises(InvalidConfig, match=r"/data/meta.properties has been lost, .* Restore the file from a backup"):
        opened(disk, settings)

    known = NodeRecord(1, "here", 9092, None, UUID(int=1), directory_id=META.directory_id)
    image = [encode_record(record) for record in (ClusterRecord("ours"), known)]
    MetadataSnapshots(disk, f"/data/{METADATA_PARTITION}").write(SnapshotId(2, 1), image, voters.voters)
    with pytest.raises(
        InvalidConfig, match=f"cluster.id=ours, node.id=1 and directory.id={id_text(META.directory_id)}"
    ):
        opened(disk, settings)
    assert meta_properties.read(disk, "/data") is None
