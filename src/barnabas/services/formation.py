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
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.voters import NO_VOTERS, Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.core.uuids import id_text
from barnabas.runtime.dice import Dice
from barnabas.runtime.metadata_log import METADATA_LOG_CONFIG
from barnabas.services.settings.broker_checks import parse_addresses, parse_voters
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage import meta_properties
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
    host = socket.gethostname() if at.host in _ANY_HOST else at.host
    port = at.port or listener.port
    if not port:
        raise InvalidConfig(f"the listener {listener} of a voter needs a port that other nodes can know")
    return Voter(ReplicaKey(config.node_id, directory_id), (Endpoint(listener.name, host, port),))


def configured_voters(config: BrokerConfig, meta: MetaProperties) -> VoterSet:
    """The voters while the log names none: the fixed list; or this node, if its settings name nobody else."""
    fixed = parse_voters(config.quorum.controller_quorum_voters)
    if fixed:
        names = config.quorum.controller_listener_names
        listener = names[0].upper() if names else "CONTROLLER"
        return VoterSet.of(
            Voter(ReplicaKey(node_id), (Endpoint(listener, host, port),)) for node_id, (host, port) in fixed.items()
        )
    return VoterSet.of([Voter(ReplicaKey(meta.node_id, meta.directory_id))]) if place_of(config).is_alone else NO_VOTERS


def open_data_dir(disk: Disk, config: BrokerConfig, dice: Dice, *, max_open_files: int) -> Formed:
    """Open a node's data directory. Refused when it is another's, damaged, or not formatted though it has to be."""
    path, place = config.log_dirs[0], place_of(config)
    found = meta_properties.read(disk, path)
    if found is not None:
        try:
            check_belongs(found, place)
        except InvalidConfig as refusal:
            raise _of_another(refusal, path) from None
    elif not _has_partitions(disk, path):
        meta = identity_of_new(place, cluster_id=id_text(dice.uuid()), directory_id=dice.uuid())
        data_dir = DataDir(disk, path, max_open_files=max_open_files, meta=meta)
        data_dir.identify(meta)  # where an earlier start, or another version, left a file without an identity
        return Formed(data_dir, meta)
    data_dir = DataDir(disk, path, max_open_files=max_open_files, meta=found)
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


def _check_no_vote_is_lost(path: str, node_id: int, voters: VoterSet) -> None:
    """Refuse a directory whose identity is gone while its log says that it votes: under a new id it would not.

    Whether it is the directory that has the vote, its log cannot tell: every node's log names all voters.
    """
    listed = voters.by_id(node_id)
    if listed is not None and listed.key.directory_id is not None:
        directory_id = id_text(listed.key.directory_id)
        raise InvalidConfig(
            f"{path}/meta.properties has been lost, and node {node_id} votes in the quorum with the data directory "
            f"{directory_id}. Restore the file, or write it again if this is that directory: version=1, cluster.id, "
            f"node.id={node_id} and directory.id={directory_id}, a line each. If it is another, empty it, have the "
            "voter removed from the quorum, and format the directory"
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
    if loaded.voters:
        _check_no_vote_is_lost(data_dir.path, place.node_id, loaded.voters[-1].voters)
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
