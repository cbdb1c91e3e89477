"""Whose a data directory is, at the start of a node: read, checked, and made where a node may form its own cluster.

What an unformatted directory becomes is decided in `core.metadata.formation`. A directory of an earlier version, which
has metadata and no identity, gains one here: its cluster and its node are those that its metadata names.
"""

import socket
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.cluster import check_identity
from barnabas.core.metadata.formation import Address, MetaProperties, Place, check_belongs, identity_of_new
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ScramCredentialRecord, decode_record
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.core.uuids import id_text
from barnabas.runtime.dice import Dice
from barnabas.runtime.metadata_log import METADATA_LOG_CONFIG
from barnabas.services.settings.broker_checks import parse_addresses, parse_voters
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage import bootstrap_records, meta_properties
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import MetadataSnapshots
from barnabas.storage.names import parse_partition

_ANY_HOST: Final = ("", "0.0.0.0", "::")


class Formed(NamedTuple):
    """A data directory that is open, and whose it is."""

    data_dir: DataDir
    meta: MetaProperties


def place_of(config: BrokerConfig) -> Place:
    """A node's place in its cluster, as its settings say it."""
    quorum = config.quorum
    return Place(
        config.node_id,
        config.cluster_id,
        quorum.is_controller,
        tuple(parse_voters(quorum.controller_quorum_voters)),
        parse_addresses(quorum.controller_quorum_bootstrap_servers),
        _own_addresses(config),
    )


def _own_addresses(config: BrokerConfig) -> Sequence[Address]:
    found = [(listener.host, listener.port) for listener in (*config.listeners, *config.advertised_listeners)]
    name = socket.gethostname()
    return [*found, *((name, port) for host, port in found if host in _ANY_HOST)]


def voter_of(config: BrokerConfig, directory_id: UUID) -> Voter:
    """This node as a voter, with where other nodes reach its listener for controllers."""
    if not config.quorum.is_controller:
        raise InvalidConfig("process.roles does not include controller: this node cannot be a voter")
    if not config.controller_listeners:
        raise InvalidConfig(
            "a voter needs a listener for controllers: name one of listeners in controller.listener.names"
        )
    listener = config.controller_listeners[0]
    at = config.advertised(listener.name) or listener
    if at.host in _ANY_HOST:
        raise InvalidConfig(
            f"the listener {listener} of a voter listens on every address of this machine, and other nodes have to be "
            f"told one that they can reach: set advertised.listeners={listener.name}://HOST:{listener.port}"
        )
    port = at.port or listener.port
    if not port:
        raise InvalidConfig(f"the listener {listener} of a voter needs a port that other nodes can know")
    return Voter(ReplicaKey(config.node_id, directory_id), (VoterEndpoint(listener.name, at.host, port),))


def configured_voters(config: BrokerConfig, meta: MetaProperties) -> VoterSet:
    """The voters while the log names none: the fixed list; or this node, if its settings name nobody else."""
    fixed = parse_voters(config.quorum.controller_quorum_voters)
    if fixed:
        names = config.quorum.controller_listener_names
        listener = names[0].upper() if names else "CONTROLLER"
        return VoterSet.of(
            Voter(ReplicaKey(node_id), (VoterEndpoint(listener, host, port),))
            for node_id, (host, port) in fixed.items()
        )
    return VoterSet.of([Voter(ReplicaKey(meta.node_id, meta.directory_id))]) if place_of(config).is_alone else NO_VOTERS


def open_data_dir(disk: Disk, config: BrokerConfig, dice: Dice, *, max_open_files: int) -> Formed:
    """Open a node's data directory. Refused when it is another's, damaged, or not formatted though it has to be."""
    path, place = config.log_dirs[0], place_of(config)
    max_producers = config.limits.max_producer_ids_per_partition
    found = meta_properties.read(disk, path)
    if found is not None:
        try:
            check_belongs(found, place)
        except InvalidConfig as refusal:
            raise _of_another(refusal, path) from None
    elif not _has_partitions(disk, path):
        meta = identity_of_new(place, cluster_id=id_text(dice.uuid()), directory_id=dice.uuid())
        data_dir = DataDir(disk, path, max_open_files=max_open_files, max_producers=max_producers, meta=meta)
        data_dir.identify(meta)  # where an earlier start, or another version, left a file without an identity
        return Formed(data_dir, meta)
    data_dir = DataDir(disk, path, max_open_files=max_open_files, max_producers=max_producers, meta=found)
    if found is not None:
        return Formed(data_dir, found)
    try:
        return Formed(data_dir, _adopt(data_dir, config, place, dice))
    except InvalidConfig:
        data_dir.give_back()
        raise


def _of_another(refusal: InvalidConfig, path: str) -> InvalidConfig:
    return InvalidConfig(f"{refusal} (in {path}): neither can change; set it to that, or name another --data-dir")


def _has_partitions(disk: Disk, path: str) -> bool:
    return disk.exists(path) and any(parse_partition(name) is not None for name in disk.list_dir(path))


def _check_no_identity_is_lost(path: str, node_id: int, voters: VoterSet, image: Image) -> None:
    """Refuse a directory whose identity is gone: its log is that of a cluster whose nodes are known by directories.

    Under a new id the node would have no vote, and count as one whose disk is lost. Whether it is the very directory
    that the log names, the log cannot tell: every node's log names all voters.
    """
    listed, known = voters.by_id(node_id), image.nodes.get(node_id)
    votes_with = None if listed is None else listed.key.directory_id
    directory_id = votes_with or (None if known is None else known.directory_id)
    if directory_id is None and not any(voter.key.directory_id for voter in voters.voters):
        return
    lost = f"{path}/meta.properties has been lost"
    if directory_id is None:
        raise InvalidConfig(
            f"{lost}, which says by which directory.id the cluster knows node {node_id}. Restore the file from a "
            "backup; or empty the directory and format it, and the node fetches what other nodes have replicas of"
        )
    knows = f"node {node_id} votes in the quorum with" if votes_with else f"the cluster knows node {node_id} by"
    remedy = "have the voter removed from the quorum, and format" if votes_with else "and format"
    cluster = "" if image.cluster_id is None else f"={image.cluster_id}"
    raise InvalidConfig(
        f"{lost}, and {knows} the data directory {id_text(directory_id)}. Restore the file, or write it again if this "
        f"is that directory: version=1, cluster.id{cluster}, node.id={node_id} and directory.id="
        f"{id_text(directory_id)}, a line each. If it is another, empty it, {remedy} the directory"
    )


def _adopt(data_dir: DataDir, config: BrokerConfig, place: Place, dice: Dice) -> MetaProperties:
    """Give the directory of an earlier version its identity, or one whose format or first start was interrupted."""
    directory, directory_id = f"{data_dir.path}/{METADATA_PARTITION}", dice.uuid()
    if not data_dir.disk.exists(directory):
        # Partitions without metadata: whoever opens the metadata refuses that, and says what to do.
        return MetaProperties(place.cluster_id or "", place.node_id, directory_id)
    log = data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
    snapshots = MetadataSnapshots(data_dir.disk, directory)
    with data_dir.health.guarded():
        if log.end_offset == 0 and BOOTSTRAP_SNAPSHOT in snapshots.ids():
            snapshots.remove(BOOTSTRAP_SNAPSHOT)  # of a format that was interrupted, for a directory with another id
        itself = ReplicaKey(place.node_id)
        loaded = load_metadata(log, replica=itself, static_voters=VoterSet.of([Voter(itself)]))
    voters = loaded.voters[-1].voters if loaded.voters else NO_VOTERS
    _check_no_identity_is_lost(data_dir.path, place.node_id, voters, loaded.image)
    try:
        check_identity(loaded.image, node_id=place.node_id, cluster_id=place.cluster_id)
    except InvalidConfig as refusal:
        raise _of_another(refusal, data_dir.path) from None
    if loaded.image.cluster_id is None:
        meta = identity_of_new(place, cluster_id=id_text(dice.uuid()), directory_id=directory_id)
    else:
        meta = MetaProperties(loaded.image.cluster_id, place.node_id, directory_id)
        if not place.is_alone and not place.voters and not loaded.voters:
            # Its settings name others by now, and nothing else would say that it has been a quorum of one so far.
            with data_dir.health.guarded():
                snapshots.write(BOOTSTRAP_SNAPSHOT, (), VoterSet.of([voter_of(config, directory_id)]))
    data_dir.identify(meta)
    return meta


def first_users(disk: Disk, path: str) -> list[ScramCredentialRecord]:
    """The credentials that a directory was formatted with."""
    found = (decode_record(data) for data in bootstrap_records.read(disk, path))
    return [each for each in found if isinstance(each, ScramCredentialRecord)]
