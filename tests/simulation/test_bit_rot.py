"""Bits that flip while a process is down, in a segment that its next start does not read.

The records that it reports as committed are those that were written, and the invariants must not treat the damage as another record. The
damage is detected, and never leaves the replica. No checksum covers the first fields of a batch.
"""

import pytest

from quorum_node.raft.outputs import HaltReason
from quorum_simulation import machine
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.every import INVARIANTS

LIMIT_MS = 20_000.0
NOTICED_MS = 2500.0
FIELDS = {
    "base offset": 7,
    "base offset, far beyond the end": 3,
    "length": 11,
    "epoch": 15,
    "magic": 16,
    "CRC-32C": 20,
    "attributes": 22,
    "last offset delta": 26,
    "records": 61,
}


class World:
    """Two voters that have written several segments."""

    def __init__(self) -> None:
        self.cluster = Cluster(5, initial_voters=1)
        self.cluster.watch.use([invariant(self.cluster) for invariant in INVARIANTS])
        self.cluster.snapshot_every = 1_000_000
        self.hosts = [self.cluster.add_host(1, founder=True), self.cluster.add_host(2)]
        self.cluster.clients.begin()
        self.until(lambda: all(len(host.log.segment_paths()) > 4 for host in self.hosts))

    def until(self, what: object, limit_ms: float = LIMIT_MS) -> None:
        assert callable(what)
        scheduler = self.cluster.scheduler
        assert scheduler.run_until(what, scheduler.now_ms + limit_ms)


def _restart_with_rot(host: SimulatedHost, position: int) -> int:
    """In its second segment, which holds records of clients alone; the offset of the batch."""
    host.machine.crash(power=False)
    path = host.log.segment_paths()[1]
    rot = host.machine.rot(path, position, 0)
    host.cluster.watch.rotted(host, rot)
    host.machine.start()
    return int(path.stem)


def _is_lost(host: SimulatedHost) -> bool:
    return host.machine.counts_as_lost


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("which", ["leader", "observer"])
def test_bit_rot_is_detected_and_never_yields_another_record(
    which: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SEGMENT_BYTES", (700,))
    world = World()
    leader, observer = world.hosts
    rotten, well = (leader, observer) if which == "leader" else (observer, leader)
    written = rotten.log.batch_at(int(rotten.log.segment_paths()[1].stem))
    offset = _restart_with_rot(rotten, FIELDS[field])
    if rotten.up:
        assert rotten.log.batch_at(offset) == written == well.log.batch_at(offset)
    world.until(lambda: rotten.halted is HaltReason.STORAGE_FAILED, NOTICED_MS)
    assert well.up
    assert rotten.machine.counts_as_lost


def test_disk_without_usable_snapshots_counts_as_lost_until_the_next_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash in between costs it: the log alone does not reach back."""
    monkeypatch.setattr(machine, "SEGMENT_BYTES", (700,))
    world = World()
    host = world.hosts[1]
    host.keeps_log = False
    world.cluster.snapshot_every = None
    world.until(lambda: host.log.first_offset > 0)
    world.cluster.snapshot_every, host.keeps_log = 1_000_000, True
    written_at_ms = world.cluster.scheduler.now_ms + 100
    world.until(lambda: world.cluster.scheduler.now_ms > written_at_ms)
    assert not _is_lost(host)
    for each in host.disk.snapshots:
        host.machine.rot(host.disk.directory / each.file_name, 61, 0)
    assert _is_lost(host)
    world.until(lambda: not host.disk.snapshots)
    assert not host.machine.is_rotten
    assert _is_lost(host)
    world.until(lambda: host.disk.snapshots)
    assert not _is_lost(host)
    assert host.up


def test_start_may_find_an_older_snapshot_that_it_did_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one of which nothing is known any more: a loss of power undid its deletion."""
    monkeypatch.setattr(machine, "SEGMENT_BYTES", (700,))
    world = World()
    host = world.hosts[1]
    host.keeps_log = True
    world.cluster.snapshot_every = None
    world.until(lambda: len(host.disk.snapshots) > 1)
    older = min(host.disk.snapshots)
    held = host.disk.snapshots[older]
    host.machine.rot(host.disk.directory / older.file_name, 61, 0)
    host.machine.crash(power=False)
    del host.disk.snapshots[older]
    host.machine.start()
    assert host.up
    assert host.disk.snapshots[older] == held
    world.until(lambda: older not in host.disk.snapshots, NOTICED_MS)
    assert host.up
