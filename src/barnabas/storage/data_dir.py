"""A data directory: a directory for each partition, the checkpoints of all, and a marker of a clean shutdown.

Owns which logs there are. A log that cannot be opened, or is missing, is kept aside with the reason and the others go
on. The marker is gone, durably, before anything is written, so that only a shutdown that finished counts as clean.

One task owns it and all its logs. What is returned as a function may run on any thread meanwhile: the removal of
partitions, and work on the files of a log, which is left undone once its partition is deleted (`while_present`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from uuid import UUID

from barnabas.core.errors import CorruptLog, DataDirLost, StorageError, StorageExhausted
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.model import TopicPartition
from barnabas.core.replica.producers import NO_LIMIT
from barnabas.storage import meta_properties
from barnabas.storage.cache import DEFAULT_MAX_FILES, OpenFiles
from barnabas.storage.checkpoints import Checkpoints
from barnabas.storage.clean_shutdown import NO_BROKER_EPOCH, has_marker, put_marker, take_marker
from barnabas.storage.config import LogConfig
from barnabas.storage.disk import Disk, SyncFailed
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.log import Log
from barnabas.storage.log_parts import LogContext
from barnabas.storage.names import DELETED, TEMPORARY, deleted_dir, parent_of, parse_partition
from barnabas.storage.partition_metadata import DamagedTopicId, make_topic_id, put_topic_ids, read_topic_id
from barnabas.storage.recovery import open_log
from barnabas.storage.recovery_report import RecoveryReport
from barnabas.storage.renewal import renew_names


class DataDir:
    """The logs of one data directory."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        max_open_files: int = DEFAULT_MAX_FILES,
        max_producers: int = NO_LIMIT,
        meta: MetaProperties | None = None,
    ) -> None:
        """`meta` is whose the directory becomes if it is new."""
        self._disk = disk
        self.path = path
        self.health = DirectoryHealth(path)
        self.logs: dict[TopicPartition, Log] = {}
        self.unreadable: dict[TopicPartition, CorruptLog] = {}
        self.topic_ids: dict[TopicPartition, UUID] = {}
        """The topic that each partition's directory belongs to, where it is known."""
        self.is_settled = False
        """Whether directories of other topics than the metadata's are leftovers: once that is known to be current."""
        self._leaving: set[TopicPartition] = set()  # forgotten, and their directories still have their names
        self.leftovers: list[str] = []  # what could not be removed when the directory was opened, and why
        self._names_lock = Lock()  # a partition's directory keeps its name while it is held; never taken by the owner
        self._deletions = 0
        self._is_recovered = False  # whether every log in it was opened
        self._is_forgetting = False  # whether the checkpoints still know partitions that are deleted
        self.broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of its node when that stopped cleanly; or, once the node has registered, its epoch now."""
        with self.health.guarded():
            self._make(disk)
            self.was_clean = has_marker(disk, path)
            if self.was_clean:
                self.broker_epoch = take_marker(disk, path)
            else:
                with self.health.sparing():
                    renew_names(disk, path)
            # Not only for the marker: a process that died may have left names that it made and did not sync, and a
            # partition that was being deleted must not come back with half of its files.
            disk.sync_dir(path)
            self._remove_leftovers()
            self._context = LogContext(
                OpenFiles(disk, max_files=max_open_files), Checkpoints(disk, path), self.health, max_producers
            )
        with self.health.sparing():
            self.checkpoints.write()  # what was damaged, or is not there yet
            self.checkpoints.keep(meta)

    def _make(self, disk: Disk) -> None:
        """Make the directory, durably. If that fails it is not left: to the next start it would look made."""
        is_new = not disk.exists(self.path)
        disk.make_dir(self.path)
        try:
            disk.sync_dir(parent_of(self.path))
        except SyncFailed:
            if is_new:
                with suppress(OSError):
                    disk.remove_dir(self.path)
            raise

    def identify(self, meta: MetaProperties) -> None:
        """Make it the directory of this node, durably, unless it is already."""
        with self.health.guarded():
            if meta_properties.read(self._disk, self.path) is None:
                meta_properties.write(self._disk, self.path, meta)

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def checkpoints(self) -> Checkpoints:
        return self._context.checkpoints

    def open_logs(self, config_of: Callable[[TopicPartition], LogConfig]) -> Iterator[RecoveryReport]:
        """Open every log in the directory, one per step. A damaged one is noted in `unreadable`."""
        with self.health.guarded():
            names = self._disk.list_dir(self.path)
        for name in names:
            partition = parse_partition(name)
            if partition is None or partition in self.logs:
                continue
            try:
                self._read_topic_id(partition)
                report = self._open(partition, config_of(partition), is_clean=self.was_clean)
            except CorruptLog as error:
                self.unreadable[partition] = error
                continue
            except StorageExhausted as refusal:
                self.unreadable[partition] = CorruptLog(
                    f"{self.path}/{name} cannot be opened: {refusal}. Free some space and start the node again"
                )
                continue
            yield report
        yield from self._open_missing(config_of)
        if not self.checkpoints.is_recovery_point_known:
            for partition, log in self.logs.items():
                self.checkpoints.set_recovery_point(partition, log.flushed_offset)
            self.checkpoints.end_recovery()
            with self.health.sparing():
                self.checkpoints.write()
        self._is_recovered = True

    def has_others(self, partition: TopicPartition) -> bool:
        """Whether there are directories of other partitions than this one."""
        with self.health.guarded():
            names = self._disk.list_dir(self.path)
        return any(found not in (None, partition) for found in map(parse_partition, names))

    def _open_missing(self, config_of: Callable[[TopicPartition], LogConfig]) -> Iterator[RecoveryReport]:
        """Handle partitions whose directory is missing. One that was empty continues at its end offset. Any other is
        not empty: its synced records are missing, and it must not start again at 0.
        """
        for partition in sorted(self.checkpoints.partitions()):
            used_to = max(self.checkpoints.recovery_point(partition), self.checkpoints.log_start(partition))
            if used_to == 0 or partition in self.logs or partition in self.unreadable:
                continue
            try:
                yield self._open(partition, config_of(partition), is_clean=False, is_new=True)
            except CorruptLog as error:
                self.unreadable[partition] = error

    def _read_topic_id(self, partition: TopicPartition) -> None:
        try:
            topic_id = read_topic_id(self._disk, f"{self.path}/{partition}")
        except NotADirectoryError:
            return  # whoever opens it says so
        except DamagedTopicId as damage:
            if self.checkpoints.recovery_point(partition) == 0:
                return  # a crash came before the first sync of its records
            raise CorruptLog(
                f"{damage}: it says which topic the records belong to. Restore it from a backup; or, if the topic was "
                "not deleted and created again meanwhile, remove it, and it is written anew at the next start"
            ) from None
        if topic_id is not None:
            self.topic_ids[partition] = topic_id

    def put_topic_ids(self, found: dict[TopicPartition, UUID]) -> None:
        """Write to directories of earlier versions which topics they belong to."""
        self.topic_ids.update(found)
        with self.health.sparing():
            put_topic_ids(self._disk, {f"{self.path}/{name}": topic_id for name, topic_id in found.items()})

    def _make_way(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove the directory of an earlier topic of the same name, before one of this topic is made or used."""
        if partition in self._leaving:
            raise StorageError(f"{partition}: the files of a deleted topic of this name are being removed; try again")
        found = self.topic_ids.get(partition)
        if found in (None, topic_id):
            return
        if not self.is_settled:
            raise StorageError(f"{partition}: there are files of another topic of this name; the node is starting")
        self.delete_log(partition)

    def create_log(self, partition: TopicPartition, config: LogConfig, *, topic_id: UUID | None = None) -> Log:
        """The log of a partition, created if there is none. One of another topic of the same name gives way to it."""
        if topic_id is not None:
            self._make_way(partition, topic_id)
        if partition in self.unreadable:
            raise self.unreadable[partition]
        if partition not in self.logs:
            if self._is_forgetting:
                with self.health.guarded():
                    self.checkpoints.write()  # or a crash would look for what an earlier partition of this name had
                self._is_forgetting = False
            self._open(partition, config, is_clean=False, is_new=True)
            if topic_id is not None:
                self._note_topic(self.logs[partition], topic_id)
        return self.logs[partition]

    def _note_topic(self, log: Log, topic_id: UUID) -> None:
        """Write whose the directory of a new log is."""
        with self.health.guarded():
            try:
                log.sync_with_first(make_topic_id(self._disk, log.directory, topic_id))
            except OSError:
                del self.logs[log.partition]  # whoever tries again begins anew
                raise
        self.topic_ids[log.partition] = topic_id

    def delete_log(self, partition: TopicPartition) -> None:
        """Remove a partition with all its records."""
        self.begin_deletion([partition])()

    def begin_deletion(self, partitions: Sequence[TopicPartition]) -> Callable[[], list[str]]:
        """Forget partitions; the returned function removes their files, on any thread.

        It returns what it could not remove, and why. Such leftovers do no harm: they have been renamed by then.
        """
        self.forget(partitions)
        return self.begin_removal(partitions)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """The first half of a deletion; very many partitions can be done a few at a time."""
        for partition in partitions:
            log = self.logs.pop(partition, None)
            if log is not None:
                log.retire()
            self.unreadable.pop(partition, None)
            self.topic_ids.pop(partition, None)
            self._leaving.add(partition)
            self._context.files.forget_directory(f"{self.path}/{partition}")
            # Forgotten before files go: a recovery point without files would be taken for lost files, and a crash
            # before the rename leaves all of the partition under its name, only to be checked in full.
            self.checkpoints.forget(partition)

    def begin_removal(self, partitions: Sequence[TopicPartition]) -> Callable[[], list[str]]:
        """The second half: see `begin_deletion`. The returned function can be called again if it was refused."""
        write_checkpoints = self.checkpoints.begin_write()
        renamed: list[str] = []

        def remove() -> list[str]:
            # On a full disk there is room for the checkpoints only when the files are gone. A crash in between leaves
            # a recovery point without files, of a partition that nobody knows.
            with self.health.sparing():
                write_checkpoints()
            with self.health.guarded():
                self._rename_deleted(partitions, renamed)
            self._leaving.difference_update(partitions)
            failures = [failure for each in renamed for failure in self._try_to_remove(each)]
            with self.health.guarded():
                write_checkpoints()
            return failures

        return remove

    def delete_strays(self, partitions: Sequence[TopicPartition]) -> list[str]:
        """Remove partitions of no topic, when the directory has just been opened. Returns what could not be removed."""
        try:
            return self.begin_deletion(partitions)()
        except StorageExhausted as refusal:
            self._is_forgetting = True
            return [str(refusal)]

    def _rename_deleted(self, partitions: Sequence[TopicPartition], renamed: list[str]) -> None:
        """Rename the directories of deleted partitions, durably, and add their new names."""
        present = [each for each in (f"{self.path}/{name}" for name in partitions) if self._disk.exists(each)]
        with self._names_lock:
            for directory in present:
                renamed.append(self._new_deleted_name())
                self._disk.rename(directory, renamed[-1])
                # Once more: a lookup that came too late may have opened a file, and the name may come again.
                self._context.files.forget_directory(directory)
        if renamed:
            self._disk.sync_dir(self.path)

    def _new_deleted_name(self) -> str:
        while True:
            self._deletions += 1
            name = deleted_dir(self.path, self._deletions)
            if not self._disk.exists(name):  # what could not be removed before keeps its name
                return name

    def while_present(self, log: Log, work: Callable[[], None]) -> Callable[[], None]:
        """`work` on the files of a log, for a thread: nothing is done once the partition is deleted."""

        def work_if_present() -> None:
            with self._names_lock:
                if self.logs.get(log.partition) is log:
                    with self.health.guarded():
                        work()

        return work_if_present

    def checkpoint(self) -> None:
        """Record the recovery point of each log, to save the next recovery work; durable when this returns."""
        for log in self.logs.values():
            log.prepare_checkpoint()
        with self.health.guarded():
            self.checkpoints.write()

    def prepare_checkpoint(self, log: Log) -> Callable[[], None] | None:
        """Record the recovery point of one log. The returned function, if any, should run on a thread soon."""
        write = log.begin_checkpoint()
        return None if write is None else self.while_present(log, write)

    def begin_checkpoint(self) -> Callable[[], None]:
        """The function that makes the recorded points of all logs durable, on any thread."""
        write = self.checkpoints.begin_write()

        def write_guarded() -> None:
            with self.health.guarded():
                write()

        return write_guarded

    def begin_watermarks(self) -> Callable[[], None]:
        """The function that makes the noted high watermarks durable, on any thread."""
        write = self.checkpoints.begin_write_high_watermarks()

        def write_guarded() -> None:
            with self.health.guarded():
                write()

        return write_guarded

    def give_back(self) -> None:
        """Mark the directory clean again if it was: for a start that is refused before anything was written."""
        if self.was_clean:
            with self.health.sparing():
                put_marker(self._disk, self.path, broker_epoch=self.broker_epoch)

    def close(self) -> None:
        """Make everything durable and mark the directory clean, unless it has a damaged log, or one that was not looked
        at since an unclean stop: what may be torn must not pass for whole at the next start.
        """
        if self.health.offline_reason is not None:
            raise DataDirLost(f"{self.path} is offline and is not closed cleanly: {self.health.offline_reason}")
        for log in self.logs.values():
            log.close()
        with self.health.guarded():
            self.checkpoints.write()
            self._disk.sync_all()  # indexes and snapshots of all logs at once; the records are synced one by one
            if not self.unreadable and (self.was_clean or self._is_recovered or self._has_only_open()):
                put_marker(self._disk, self.path, broker_epoch=self.broker_epoch)
        self.logs.clear()

    def _has_only_open(self) -> bool:
        """Whether every partition in the directory is open, as on a node that is no broker."""
        found = map(parse_partition, self._disk.list_dir(self.path))
        return all(partition is None or partition in self.logs for partition in found)

    def _open(
        self, partition: TopicPartition, config: LogConfig, *, is_clean: bool, is_new: bool = False
    ) -> RecoveryReport:
        directory = f"{self.path}/{partition}"
        log, report = open_log(partition, directory, config, self._context, is_clean=is_clean, is_new=is_new)
        self.logs[partition] = log
        return report

    def _remove_leftovers(self) -> None:
        for name in self._disk.list_dir(self.path):
            if name.endswith(DELETED):
                self.leftovers += self._try_to_remove(f"{self.path}/{name}")
            elif name.endswith(TEMPORARY):
                try:
                    self._disk.remove(f"{self.path}/{name}")
                except OSError as error:
                    self.leftovers.append(str(error))

    def _try_to_remove(self, directory: str) -> list[str]:
        """Remove a directory that is no longer needed; returns the error, if any."""
        try:
            if not self._disk.exists(directory):
                return []
            for name in self._disk.list_dir(directory):
                self._disk.remove(f"{directory}/{name}")
            self._disk.remove_dir(directory)
        except OSError as error:
            return [str(error)]
        return []
