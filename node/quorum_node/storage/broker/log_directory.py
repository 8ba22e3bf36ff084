"""One directory of `log.dirs`: its identity, logs, checkpoints, clean stop, and failure.

Owns the files around the partitions. A disk error takes the whole directory offline until the
process ends. Must not know the other directories, nor which replica leads.
Clean stop: flush each log with its snapshot and epochs, then the checkpoints, last the marker. A
start removes the marker before anything else is written.
Source: the files of a stock broker (`LogManager`, `CleanShutdownFileHandler`).
"""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.json_text import read_json
from quorum_node.records.identity import uuid_text
from quorum_node.records.snapshot_id import MAX_OFFSET
from quorum_node.storage.atomic_file import read_file, replace_file, sync_directory
from quorum_node.storage.broker import offset_checkpoint as checkpoints
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.move_mark import (
    read_move_mark,
    remove_move_mark,
    write_move_mark,
)
from quorum_node.storage.broker.offset_checkpoint import (
    TopicPartition,
    read_offsets,
    write_offsets,
)
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.replica_folder import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    folder_name,
    going_name,
    is_folder,
    is_going,
    parse_folder_name,
    remove_folder,
    topic_id_in,
)
from quorum_node.storage.broker.time_of_day import time_of_day_ms
from quorum_node.storage.errors import (
    DiskFull,
    StorageFailure,
    again,
    classify,
    storage_errors,
)
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.meta_properties import (
    MetaProperties,
    check_identity,
    read_meta_properties,
    write_meta_properties,
)
from quorum_node.storage.partition_metadata import ensure_partition_metadata

CLEAN_STOP_FILE = ".kafka_cleanshutdown"
STRAY_DELAY_MS = 3_600_000
"""How long a log that the metadata does not assign to this broker is kept, so that a mistake can be noticed. It begins again with each start."""


class LogDirectory:
    """`failure`: why it is offline, or None.

    `was_closed`: the last process stopped cleanly, in `closed_epoch`.
    """

    def __init__(
        self,
        path: Path,
        *,
        node_id: int,
        cluster_id: str,
        files: FileSystem = POSIX,
        clock_ms: Callable[[], int] = time_of_day_ms,
        new_id: Callable[[], UUID] = fresh_uuid,
    ) -> None:
        """Open the directory, or format an empty one. No log is opened yet.

        Raises WrongDirectory when it is another node's or cluster's, StorageFailure, DiskFull.
        """
        self.path = path
        self.failure: StorageFailure | None = None
        self._on_failure: Callable[[StorageFailure | DiskFull], None] = lambda _: None
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._files = files
        self._clock_ms = clock_ms
        self._lock = threading.RLock()
        self._folders = threading.Lock()
        """Held while a replica's folder is renamed, or marked as being moved. Both happen on threads."""
        self._going: list[tuple[int, Path]] = []
        meta = self._identity(node_id, cluster_id, new_id)
        self.directory_id = meta.directory_id
        self._is_used = False
        self._promoted: dict[TopicPartition, PartitionLog] = {}
        """Logs that were just closed completely, so that they need no check when they are opened."""
        self.was_closed, self.closed_epoch = self._take_clean_stop()
        self.high_watermarks = self._offsets(checkpoints.HIGH_WATERMARKS)
        """Checkpoints as of the end of the last process."""
        self._recovery_points = self._offsets(checkpoints.RECOVERY_POINTS)
        self._log_starts = self._offsets(checkpoints.LOG_STARTS)
        self.cleaned = self._offsets(checkpoints.CLEANED)
        """First dirty offset of each replica, for compaction."""
        with storage_errors(f"look into {path}"):
            for name in files.names(path):
                if is_going(name) and is_folder(path / name, files):
                    delay_ms = STRAY_DELAY_MS if name.endswith(STRAY_SUFFIX) else 0
                    self._going.append((clock_ms() + delay_ms, path / name))

    # -- replicas

    def replicas(self) -> dict[TopicPartition, UUID | None]:
        """Every folder of a replica, with its topic id; None if it has none, so that it belongs to no topic."""
        with storage_errors(f"look into {self.path}"):
            names = self._files.names(self.path)
        found = {}
        for name in sorted(names):
            replica = parse_folder_name(name)
            if replica is not None and is_folder(self.path / name, self._files):
                found[replica] = topic_id_in(self.path / name, self._files)
        return found

    def open_log(
        self, replica: TopicPartition, topic_id: UUID, settings: LogSettings
    ) -> PartitionLog:
        """Open or create the replica's log.

        Raises DamagedLog (this replica stays offline), StorageFailure (the directory is offline
        now) or DiskFull.
        """
        self.check_usable()
        folder = self.path / folder_name(replica)
        try:
            with storage_errors(f"open {folder}"):
                if not self._files.exists(folder):
                    self._forget(replica)
                    self._files.make_directories(folder)
                    sync_directory(self.path, self._files)
                ensure_partition_metadata(folder, uuid_text(topic_id), self._files)
                remove_move_mark(folder, self._files)  # of a move that did not get to its end
                log = PartitionLog.open(
                    folder,
                    settings,
                    Known(
                        self._recovery_points.get(replica, 0),
                        self._log_starts.get(replica, 0),
                        self.was_closed or replica in self._promoted,
                        self.cleaned.get(replica, 0),
                    ),
                    files=self._files,
                    clock_ms=self._clock_ms,
                    before_lowering=lambda _: self.write_recovery_points(),
                    on_failure=self.fail,
                )
        except DamagedLog:
            raise
        except StorageFailure as error:
            self.fail(error)
            raise
        with self._lock:
            self.logs[replica], self._is_used = log, True
            closed = self._promoted.pop(replica, None)
        if closed is not None:
            log.take_producers(closed.producer_table)
        self.note_cut(replica, log)
        return log

    def open_future(
        self, replica: TopicPartition, topic_id: UUID, settings: LogSettings
    ) -> PartitionLog:
        """An empty log in a directory of its own, to which the replica is copied from another log directory.

        Raises StorageFailure (the directory is offline now) or DiskFull.
        """
        self.check_usable()
        folder = self.path / going_name(replica, FUTURE_SUFFIX)
        with self._failing(f"make {folder}"), storage_errors(f"make {folder}"):
            self._files.make_directories(folder)
            ensure_partition_metadata(folder, uuid_text(topic_id), self._files)
            return PartitionLog.open(
                folder, settings, files=self._files, clock_ms=self._clock_ms, on_failure=self.fail
            )

    def moving_to(self, replica: TopicPartition) -> UUID | None:
        """The log directory that may have the current log of this replica instead, after a crash. Raises StorageFailure."""
        return read_move_mark(self.path / folder_name(replica), self._files)

    def mark_move(self, replica: TopicPartition, target: UUID | None) -> None:
        """Note durably that a copy in the log directory `target` is about to take the place of the log here; None: that it
        does not.

        Raises StorageFailure (the directory is offline now) or DiskFull.
        """
        self.check_usable()
        folder = self.path / folder_name(replica)
        with self._folders, self._failing(f"mark the move of {folder_name(replica)}"):
            if replica not in self.logs:
                return  # deleted meanwhile
            if target is None:
                remove_move_mark(folder, self._files)
            else:
                write_move_mark(folder, target, self._files)

    def promote(self, replica: TopicPartition, log: PartitionLog) -> None:
        """Close the log of `open_future`; it is the replica's at the next `open_log`. All of it is durable then.

        Raises StorageFailure (the directory is offline now) or DiskFull.
        """
        self.check_usable()
        log.close()
        with self._lock:
            self._forget(replica)
            self._recovery_points[replica] = log.recovery_point
            self._write(checkpoints.RECOVERY_POINTS, self._recovery_points)
            if log.start_offset > log.segments[0].base_offset:
                self._log_starts[replica] = log.start_offset
                self._write(checkpoints.LOG_STARTS, self._log_starts)
        folder = self.path / folder_name(replica)
        with self._failing(f"rename {log.directory}"):
            self._files.rename(log.directory, folder)
            sync_directory(self.path, self._files)
        self._promoted[replica] = log

    def drop_future(self, log: PartitionLog) -> None:
        """Remove the log of `open_future`. Nothing is removed from a failed directory."""
        log.close(cleanly=False)
        if self.failure is None:
            with self._failing(f"remove {log.directory}"):
                remove_folder(log.directory, self._files)

    def delete(self, replica: TopicPartition) -> None:
        """Delete a replica's files after file.delete.delay.ms: its topic was deleted, or the
        replica was moved.
        """
        log = self.logs.get(replica)
        delay_ms = LogSettings().file_delete_delay_ms
        if log is not None:
            delay_ms = log.settings.file_delete_delay_ms
        self._set_aside(replica, DELETE_SUFFIX, delay_ms)

    def set_aside(self, replica: TopicPartition, delay_ms: int) -> None:
        """Delete a stray replica's files after `delay_ms`: the metadata has no such replica, or its
        topic was replaced.
        """
        self._set_aside(replica, STRAY_SUFFIX, delay_ms)

    def _set_aside(self, replica: TopicPartition, suffix: str, delay_ms: int) -> None:
        self.check_usable()
        with self._lock:
            log = self.logs.pop(replica, None)
        if log is not None:
            log.close(cleanly=False)
        # Before the directory goes: a replica of the same name may follow.
        self._forget(replica)
        target = self.path / going_name(replica, suffix)
        with self._folders, self._failing(f"set {folder_name(replica)} aside"):
            self._files.rename(self.path / folder_name(replica), target)
            sync_directory(self.path, self._files)
        self._going.append((self._clock_ms() + delay_ms, target))

    def _forget(self, replica: TopicPartition) -> None:
        """Remove a replica from all checkpoints. Its offsets would hide, or declare committed, records of a later one."""
        with self._lock:
            for name, offsets in (
                (checkpoints.HIGH_WATERMARKS, self.high_watermarks),
                (checkpoints.RECOVERY_POINTS, self._recovery_points),
                (checkpoints.LOG_STARTS, self._log_starts),
                (checkpoints.CLEANED, self.cleaned),
            ):
                if replica in offsets:
                    del offsets[replica]
                    self._write(name, offsets)

    def remove_due(self) -> int:
        """Remove directories and segments whose delay is over; returns the number of directories."""
        self.check_usable()
        now_ms = self._clock_ms()
        for log in list(self.logs.values()):
            log.remove_deleted(now_ms)
        due = [each for each in self._going if each[0] <= now_ms]
        for each in due:
            with self._failing(f"remove {each[1]}"):
                remove_folder(each[1], self._files)
            self._going.remove(each)
        return len(due)

    # -- checkpoints

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace replication-offset-checkpoint; partitions that are not open keep theirs. Raises StorageFailure or DiskFull."""
        self.check_usable()
        with self._lock:
            self.high_watermarks.update(offsets)
            self._write(checkpoints.HIGH_WATERMARKS, self.high_watermarks)

    def write_recovery_points(self) -> None:
        """Replace recovery-point- and log-start-offset-checkpoint. Raises StorageFailure or DiskFull."""
        self.check_usable()
        with self._lock:
            for replica, log in self.logs.items():
                self._recovery_points[replica] = log.recovery_point
                if log.start_offset > log.segments[0].base_offset:
                    self._log_starts[replica] = log.start_offset
                else:
                    self._log_starts.pop(replica, None)
            self._write(checkpoints.RECOVERY_POINTS, self._recovery_points)
            self._write(checkpoints.LOG_STARTS, self._log_starts)

    def note_cleaned(self, replica: TopicPartition, log: PartitionLog, end_offset: int) -> None:
        """Update cleaner-offset-checkpoint: `log` is clean below `end_offset`. Ignored if it is not
        the present log.

        Raises StorageFailure or DiskFull.
        """
        self.check_usable()
        with self._lock:
            if self.logs.get(replica) is log:
                self.cleaned[replica] = end_offset
                self._write(checkpoints.CLEANED, self.cleaned)

    def note_cut(self, replica: TopicPartition, log: PartitionLog) -> None:
        """`log` may have been truncated: new records in place of truncated ones are dirty."""
        if self.cleaned.get(replica, 0) > log.end_offset:
            self.note_cleaned(replica, log, log.end_offset)

    def close(self, broker_epoch: int, *, cleanly: bool = True) -> None:
        """Stop cleanly: flush everything and write the marker. A failed directory gets no marker.

        Nor does a directory with a log that may have an unchecked or unsynced end: the next start would trust it. `broker_epoch`: negative if
        this process has not registered. If it has opened no log either, the epoch of the process before it still holds.
        """
        if broker_epoch < 0 and not self._is_used and self.closed_epoch is not None:
            broker_epoch = self.closed_epoch
        with self._lock:
            logs = tuple(self.logs.values())
        # Without the lock: a sync of a log that is running is waited for, and takes the lock if it fails.
        is_clean = cleanly and self.failure is None
        for log in logs:
            log.close(cleanly=is_clean)
        if not is_clean:
            return
        self.write_recovery_points()
        if not self._ends_are_proved():
            return
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        with self._failing("write the marker of a clean stop"):
            replace_file(self.path / CLEAN_STOP_FILE, text.encode(), self._files)

    def _ends_are_proved(self) -> bool:
        """Whether all logs are synced, those included that were not opened: after a crash they are not recovered."""
        is_synced = all(
            log.recovery_point >= log.segments[-1].end_offset for log in self.logs.values()
        )
        return is_synced and (self.was_closed or self.replicas().keys() <= self.logs.keys())

    # -- failure

    def watch(self, failed: Callable[[StorageFailure | DiskFull], None]) -> None:
        """Call `failed` once when the directory fails, on the thread that detects it."""
        self._on_failure = failed

    def fail(self, failure: StorageFailure | DiskFull) -> None:
        """Take the directory with all its logs offline; the first reason is kept."""
        final = StorageFailure(str(failure)) if isinstance(failure, DiskFull) else failure
        with self._lock:
            if self.failure is not None:
                return
            self.failure = final
            for log in self.logs.values():
                log.disable(final)
        self._on_failure(failure)

    def check_usable(self) -> None:
        """Raises StorageFailure once the directory has failed."""
        if self.failure is not None:
            raise again(self.failure)

    def _failing(self, action: str) -> "_Failing":
        return _Failing(self, action)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        with self._failing(f"write {name}"):
            write_offsets(self.path / name, offsets, self._files)

    # -- opening

    def _identity(
        self, node_id: int, cluster_id: str, new_id: Callable[[], UUID]
    ) -> MetaProperties:
        with storage_errors(f"open {self.path}"):
            self._files.make_directories(self.path)
            names = self._files.names(self.path)
        meta = read_meta_properties(self.path, self._files)
        if meta is None:
            held = sorted(name for name in names if parse_folder_name(name) is not None)
            if held:
                raise StorageFailure(
                    f"{self.path} holds {held[0]} and has no meta.properties: its identity is lost. Nothing was changed. Restore meta.properties, or empty the directory. Its replicas are then fetched again"
                )
            meta = MetaProperties(node_id, new_id(), cluster_id)
            write_meta_properties(self.path, meta, self._files)
        check_identity(meta, self.path, node_id, cluster_id)
        return meta

    def _take_clean_stop(self) -> tuple[bool, int | None]:
        path = self.path / CLEAN_STOP_FILE
        content = read_file(path, self._files)
        if content is None:
            return False, None
        with storage_errors(f"remove {path}"):
            self._files.unlink(path)
            sync_directory(self.path, self._files)
        try:
            epoch = int(read_json(content)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            return True, None
        return True, epoch if 0 <= epoch <= MAX_OFFSET else None

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        offsets = read_offsets(self.path / name, self._files)
        if offsets is None and name == checkpoints.RECOVERY_POINTS:
            self.was_closed = False
        return offsets or {}


class _Failing:
    """OSErrors inside the context take the directory offline; a full disk does not."""

    __slots__ = ("_action", "_directory")

    def __init__(self, directory: LogDirectory, action: str) -> None:
        self._directory = directory
        self._action = action

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            failure = classify(error, f"{self._action} in {self._directory.path}")
            if isinstance(failure, DiskFull) and not failure.at_sync:
                raise failure from error
            if isinstance(failure, DiskFull):
                failure = StorageFailure(str(failure))
            self._directory.fail(failure)
            raise failure from error
        if isinstance(error, StorageFailure) and not isinstance(error, DamagedLog):
            self._directory.fail(error)
