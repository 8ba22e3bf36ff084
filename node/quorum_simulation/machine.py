"""A simulated machine: one process with a replica of every quorum partition, and one disk.

Owns what the replicas share (K595-31): they crash, freeze, start and are switched off together, and
a disk that breaks or is full is everyone's. Must not know what a replica does, nor the story.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from quorum_node.raft.events import ShutdownRequested, StorageFailed
from quorum_node.raft.outputs import Halt, HaltReason
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.directory import OpenDirectory, is_formatted, open_directory
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.partition_directory import format_partition
from quorum_simulation.clock import Clock
from quorum_simulation.files.file_system import Image, PowerLost, SimulatedFiles
from quorum_simulation.files.stored_file import StoredFile

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost

DATA = Path("/data")
EXIT_MS = 0.5
"""How long a process that halted still lives."""
SHUFFLED_SHARE = 0.6
"""Disks that write sectors in any order."""
SEGMENT_BYTES = (700, 3000, 12_000, 1 << 20)
FAILED_SYNCS = (errno.EIO, errno.EROFS)
"""Errors of a sync that are a failed disk; the others are a full one."""
_NO_LATCH = FailureLatch(None)


@dataclass(frozen=True, slots=True)
class Rot:
    """A bit of a file that turned over: `value` is the byte since then, `was` the one that was written."""

    path: Path
    file: StoredFile
    position: int
    value: int
    was: int


class Machine:
    """`replicas` by partition. `retired`: never started again (failed disk, or removed for good)."""

    def __init__(self, random: Random, clock: Clock) -> None:
        self.replicas: list[SimulatedHost] = []
        self.clock = clock
        self.files = SimulatedFiles(random, shuffled=random.random() < SHUFFLED_SHARE)
        self.frozen_until_ms = 0.0
        self.retired = False
        self.sync_delay_ms = 0.0
        self._segment_bytes = random.choice(SEGMENT_BYTES)
        self._ends = False
        self.disk_faults: list[str] = []
        """What was done to the disk that is a reason to give it up."""
        self.keeps_mark = True
        """Whether a failed disk is remembered when its process has ended: by the latch, or by the operator."""
        self.given_up = False
        """Whether its process has said that the disk has failed, and this is remembered: it is replaced."""
        self.went_back = False
        """Whether it ever came back as it was before."""
        self._rotten: list[Rot] = []
        self._held: list[int] = []
        """By partition, up to where a disk that went back had the log before."""
        self.was_full = False
        """Whether it was ever full."""

    @property
    def first(self) -> "SimulatedHost":
        """The replica of partition 0, which stands for the machine."""
        return self.replicas[0]

    @property
    def disk_broken(self) -> bool:
        """For good."""
        return self.files.broken

    def break_disk(self) -> None:
        """For good."""
        self.files.broken = True
        self.disk_faults.append("broken")

    @property
    def disk_full(self) -> bool:
        """Until it is mended."""
        return self.files.full or self.files.full_at_sync

    @property
    def counts_as_lost(self) -> bool:
        """Whether what this disk once held can't be relied on.

        It is broken, spoilt or given up, will be given up with its next sync or start, or has not caught up since it went back.
        """
        doomed = self.keeps_mark and self.files.failing_sync in FAILED_SYNCS
        beheaded = "bit rot" in self.disk_faults and any(
            replica.has_run and replica.disk.lacks_the_beginning for replica in self.replicas
        )
        lost = self.files.broken or self.given_up or doomed or beheaded
        return lost or self.is_rotten or self._is_behind()

    @property
    def is_rotten(self) -> bool:
        """Whether a bit that turned over is still there, or there again: a loss of power may undo what took it away."""
        return any(map(self.holds, self._rotten))

    def holds(self, rot: Rot) -> bool:
        """Whether it is still there: the file may have been cut, replaced or deleted."""
        content = rot.file.content
        there = len(content) > rot.position and content[rot.position] == rot.value
        return there and self.files.file(rot.path) is rot.file

    def rot(self, path: Path, position: int, bit: int) -> Rot:
        """A bit of a file turns over."""
        file = self.files.file(path)
        assert file is not None
        was = file.content[position]
        file.flip(position, bit)
        rot = Rot(path, file, position, file.content[position], was)
        self.disk_faults.append("bit rot")
        self._rotten.append(rot)
        return rot

    def as_written(self, path: Path) -> bytes:
        """A file without what has rotted in it since: what a process that has not read it again takes it for."""
        file = self.files.file(path)
        assert file is not None, f"{path} is open and has no name"
        content = bytearray(file.content)
        for rot in self._rotten:
            if rot.file is file and self.holds(rot):
                content[rot.position] = rot.was
        return bytes(content)

    def go_back(self, image: Image) -> None:
        """The process ends, and the disk is as it was."""
        self.crash()
        self.went_back = True
        self._held = [max(0, replica.log.end_offset) for replica in self.replicas]
        self.files.restore(image)
        # The image may contain flipped bits that were overwritten on the disk since.
        found = [(rot, self.files.file(rot.path)) for rot in self._rotten]
        self._rotten = [replace(rot, file=file) for rot, file in found if file is not None]

    def _is_behind(self) -> bool:
        held = [
            offset
            for replica, offset in zip(self.replicas, self._held, strict=False)
            if not replica.up or replica.log.durable_end_offset() < offset
        ]
        if not held:
            self._held = []
        return bool(held)

    def start(self) -> None:
        """Start the process."""
        assert not self.retired
        assert not self.first.up
        self.frozen_until_ms, self._ends = 0.0, False
        self.guarded(self._start)

    def _start(self) -> None:
        try:
            opened = self.open_directory()
        except StorageFailure as error:
            self._refuse(HaltReason.STORAGE_FAILED, str(error))
        except DiskFull as error:
            self._refuse(HaltReason.DISK_FULL, str(error))
        else:
            for replica, partition in zip(self.replicas, opened.partitions, strict=True):
                replica.start_replica(partition)

    def guarded(self, action: Callable[..., None], *arguments: object) -> None:
        """Do something in the process; it may end in the middle of it."""
        try:
            action(*arguments)
        except PowerLost:
            self.crash()

    def crash(self, *, power: bool = True) -> None:
        """kill -9, and mostly loss of power in one."""
        for replica in self.replicas:
            replica.crash_replica()
        if power:
            self.files.lose_power()
        else:
            self.files.end_process()

    def request_shutdown(self) -> None:
        """SIGTERM."""
        for replica in self.replicas:
            replica.handle(replica.run, ShutdownRequested())

    def halted(self, output: Halt) -> None:
        """A replica halted: with the last one that was asked to stop, or the first one that failed."""
        if self._ends:
            return
        self.first.cluster.watch.halted(self.first, output)
        self._note_failure(output.reason)
        if output.reason is HaltReason.SHUTDOWN:
            self._ends = all(replica.halted is not None for replica in self.replicas)
        else:
            self._ends = True
            full = output.reason is HaltReason.DISK_FULL
            for replica in self.replicas:
                if replica.halted is None:
                    replica.driver.handle(StorageFailed(output.detail, disk_full=full))
                replica.halted = output.reason
        if self._ends:
            self.first.cluster.scheduler.after(EXIT_MS, self._exit, self.first.run)

    def _exit(self, run: int) -> None:
        first = self.first
        if run == first.run and first.up:
            self.crash(power=self.files.random.random() < 0.3)
            first.cluster.host_halted(first)

    def _refuse(self, reason: HaltReason, detail: str) -> None:
        """The process ends before it has begun."""
        for replica in self.replicas:
            replica.refuse_start(reason)
        self.files.end_process()
        first = self.first
        first.cluster.watch.refused_to_start(first, reason, detail)
        self._note_failure(reason)
        first.cluster.scheduler.after(EXIT_MS, first.cluster.host_halted, first)

    def _note_failure(self, reason: HaltReason) -> None:
        if reason is HaltReason.STORAGE_FAILED and self.keeps_mark:
            self.given_up = True

    def open_directory(self) -> OpenDirectory:
        """Format it if it is empty, as the process does; the identities are those of the history."""
        first = self.first
        if not is_formatted(DATA, _NO_LATCH, self.files):
            self._format()
        return open_directory(
            DATA,
            node_id=first.key.id,
            cluster_id=first.config.cluster_id,
            segment_bytes=self._segment_bytes,
            latch=_NO_LATCH,
            partitions=len(self.replicas),
            files=self.files,
        )

    def _format(self) -> None:
        first = self.first
        cluster_id = first.config.cluster_id
        assert first.key.uuid is not None
        for number, replica in enumerate(self.replicas):
            assert replica.key.uuid is not None
            format_partition(DATA, number, replica.key.uuid, cluster_id, self.files)
        sync_directory(DATA, self.files)
        meta = MetaProperties(first.key.id, first.key.uuid, cluster_id, len(self.replicas))
        write_meta_properties(DATA, meta, self.files)
