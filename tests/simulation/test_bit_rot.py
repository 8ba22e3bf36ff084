"""Bits that turn over while a process is down, in a segment that its next start takes unread.

What it agrees to be committed is what was written, and the invariants must not take the damage for another record. The damage
itself is noticed, and never leaves the replica. No checksum covers the first fields of a batch.
"""

import pytest

from quorum_node.raft.outputs import HaltReason
from quorum_node.simulation import machine
from quorum_node.simulation.cluster import Cluster
from quorum_node.simulation.host import SimulatedHost
from quorum_node.simulation.invariants.every import INVARIANTS

LIMIT_MS = 20_000.0
NOTICED_MS = 2500.0
FIELDS = {
    "base offset": 7,
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


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("which", ["leader", "observer"])
def test_it_is_no_other_record_and_is_noticed(
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
