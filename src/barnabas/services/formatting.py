"""Formatting a data directory: making it part of a cluster before its node first starts.

The identity is written last. A format that was interrupted leaves a directory that is not formatted, and the next one
begins anew.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from barnabas.core.access.scram import NUMBERS, credential_of, salted_password
from barnabas.core.access.scram_text import parse_user
from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.credentials import alter_credentials
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ScramCredentialRecord, encode_record
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.core.uuids import parse_id
from barnabas.runtime.dice import Dice
from barnabas.services.formation import place_of, voter_of
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage import bootstrap_records, meta_properties
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk
from barnabas.storage.metadata_snapshot import MetadataSnapshots
from barnabas.storage.names import LOG, parse_partition

SALT_BYTES: Final = 16


def initial_voters(
    config: BrokerConfig, directory_id: UUID, *, is_standalone: bool, controllers: str | None, joins_later: bool
) -> VoterSet:
    """The first voters of a dynamic quorum; none where they are fixed, or where this node joins later."""
    ways = [is_standalone, controllers is not None, joins_later]
    place = place_of(config)
    if place.voters:
        if any(ways):
            raise InvalidConfig(
                "controller.quorum.voters is a fixed list of voters: remove it, and set "
                "controller.quorum.bootstrap.servers, to use --standalone, --initial-controllers or "
                "--no-initial-controllers"
            )
        return NO_VOTERS
    if sum(ways) > 1 or (sum(ways) == 0 and place.is_controller):
        raise InvalidConfig(
            "say who votes first, with one of --standalone, --initial-controllers and --no-initial-controllers, or set "
            "controller.quorum.voters"
        )
    if is_standalone:
        return VoterSet.of([voter_of(config, directory_id)])
    if controllers is None:
        if place.is_alone or not place.bootstrap:
            raise InvalidConfig(
                "a node that joins later has to know whom: set controller.quorum.bootstrap.servers to controllers of "
                "the cluster"
            )
        return NO_VOTERS
    return parse_controllers(config, controllers)


def parse_controllers(config: BrokerConfig, text: str) -> VoterSet:
    """The voters of ``--initial-controllers``, with the name of this node's listener for controllers."""
    names = config.quorum.controller_listener_names
    listener = names[0].upper() if names else "CONTROLLER"
    voters = [_parse_controller(each.strip(), listener) for each in text.split(",")]
    if len({voter.key.node_id for voter in voters}) != len(voters):
        raise InvalidConfig(f"--initial-controllers names a node id twice: {text}")
    return VoterSet.of(voters)


def _parse_controller(text: str, listener: str) -> Voter:
    node_id, _, rest = text.partition("@")
    address, _, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    is_number = node_id.isascii() and node_id.isdecimal() and port.isascii() and port.isdecimal()
    try:
        if not is_number or not host or not 0 < int(port) < 2**16 or int(node_id) >= 2**31:
            raise ValueError("it must be ID@HOST:PORT:DIRECTORY-ID")
        key = ReplicaKey(int(node_id), parse_id(directory))
    except ValueError as problem:
        raise InvalidConfig(f"--initial-controllers cannot have {text!r}: {problem}") from None
    return Voter(key, (VoterEndpoint(listener, host.strip("[]"), int(port)),))


def directory_id_in(voters: VoterSet, node_id: int) -> UUID | None:
    """The directory id that a list of voters gives to a node."""
    voter = voters.by_id(node_id)
    return None if voter is None else voter.key.directory_id


def check_unformatted(disk: Disk, path: str) -> MetaProperties | None:
    """Whose a directory is that is formatted; refused if it holds data that a format would ruin."""
    found = meta_properties.read(disk, path)
    if found is None and disk.exists(path):
        names = [name for name in disk.list_dir(path) if parse_partition(name) is not None]
        if any(name != str(METADATA_PARTITION) or _has_log(disk, f"{path}/{name}") for name in names):
            raise InvalidConfig(
                f"{path} holds the data of a node of an earlier version: start it with barnabas serve, which keeps them"
            )
    return found


def _has_log(disk: Disk, directory: str) -> bool:
    return any(name.endswith(LOG) for name in disk.list_dir(directory))


def format_directory(
    disk: Disk,
    path: str,
    meta: MetaProperties,
    voters: VoterSet,
    users: Sequence[ScramCredentialRecord] = (),
) -> None:
    """Make a directory that belongs to nobody that of this node; durable when this returns."""
    DataDir(disk, path)  # the checkpoints, and that they are there
    metadata = f"{path}/{METADATA_PARTITION}"
    snapshots = MetadataSnapshots(disk, metadata)
    if disk.exists(metadata):
        _remove_interrupted(disk, metadata, disk.list_dir(metadata))
    if voters.voters:
        disk.make_dir(metadata)
        disk.sync_dir(path)
        snapshots.write(BOOTSTRAP_SNAPSHOT, (), voters)
    if users:
        bootstrap_records.write(disk, path, [encode_record(each) for each in users])
    meta_properties.write(disk, path, meta)


def make_users(texts: Sequence[str], dice: Dice) -> list[ScramCredentialRecord]:
    """The credentials of the first users of a cluster, of texts as in ``--add-scram``."""
    made = {}
    for text in texts:
        user = parse_user(text)
        salt = user.salt or dice.token_bytes(SALT_BYTES)
        salted = user.salted_password or salted_password(user.mechanism, user.password, salt, user.iterations)
        credential = credential_of(user.mechanism, salted, salt=salt, iterations=user.iterations)
        record = ScramCredentialRecord(user.name, NUMBERS[user.mechanism], *credential)
        made[record.user, record.mechanism] = record
    outcomes = alter_credentials(Image(), (), list(made.values())).reply
    problem = next((each for each in outcomes.values() if each is not None), None)
    if problem is not None:
        raise InvalidConfig(f"--add-scram: {problem}")
    return list(made.values())


def _remove_interrupted(disk: Disk, metadata: str, names: Sequence[str]) -> None:
    """Remove what a format that was interrupted wrote: it may have named other voters."""
    for name in names:
        disk.remove(f"{metadata}/{name}")
    disk.sync_dir(metadata)
