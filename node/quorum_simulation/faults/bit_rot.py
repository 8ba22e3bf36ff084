"""Bit rot: flipped bits in synced data of the log, a snapshot or quorum-state.

In the log it often hits offset and epoch of a control batch: a start uses these, although it opens sealed segments
unread. The replica has to detect it, and then its disk is replaced. So only an expendable disk is chosen.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from quorum_node.storage.quorum_state import FILE_NAME as QUORUM_STATE
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost

UNCHECKED_BYTES = 17
"""Size of base offset, length, epoch and magic, which precede a batch's checksum."""
DOWN_SHARE = 0.5
"""Share of the cases that are detected at the next start instead of by the running process."""
CONTROL_SHARE = 0.3
"""Share of the flipped bits of a log that hit the fields of a control batch that no checksum covers."""


class BitRot:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("bit rot in the log", lambda: self._strike(_segments)),
            Kind("bit rot in a snapshot", lambda: self._strike(_snapshots)),
            Kind("bit rot in quorum-state", lambda: self._strike(_quorum_state)),
        )

    def heal(self) -> None:
        """See `Family`. Flipped bits stay flipped."""

    def _strike(self, files_of: Callable[[SimulatedHost], list[Path]]) -> bool:
        host = self._context.expendable()
        if host is None:
            return False
        replica = self._context.random.choice(host.machine.replicas)
        files = host.machine.files
        sizes = {path: files.safe_bytes(path) for path in files_of(replica)}
        paths = [path for path, size_bytes in sizes.items() if size_bytes]
        if not paths:
            return False
        if self._context.random.random() < DOWN_SHARE:
            host.machine.crash(power=False)
            self._context.later(5, 300, self._context.restart, host)
        aims = files_of is _segments and self._context.random.random() < CONTROL_SHARE
        headers = [
            (path, start)
            for path, start in (replica.log.control_batches() if aims else ())
            if start + UNCHECKED_BYTES <= sizes.get(path, 0)
        ]
        if headers:
            path, start = self._context.random.choice(headers)
            position = start + self._context.random.randrange(UNCHECKED_BYTES)
        else:
            path = self._context.random.choice(paths)
            position = self._context.random.randrange(sizes[path])
        rot = host.machine.rot(path, position, self._context.random.randrange(8))
        replica.cluster.watch.rotted(replica, rot)
        return True


def _segments(replica: SimulatedHost) -> list[Path]:
    return replica.log.segment_paths()


def _snapshots(replica: SimulatedHost) -> list[Path]:
    return [replica.disk.directory / each.file_name for each in replica.disk.snapshots]


def _quorum_state(replica: SimulatedHost) -> list[Path]:
    return [replica.disk.directory / QUORUM_STATE]
