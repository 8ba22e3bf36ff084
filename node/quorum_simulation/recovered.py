"""A recovery of a simulated quorum: how a stopped survivor is made its sole voter, and which logs have it.

Owns the rewriting of the survivor's directory, by the steps of `quorum-node --recover`, and who has seen it. Must not ask
a replica what it thinks of recoveries: the invariants use this to check exactly that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorum_node.raft import Replica
from quorum_node.server.starting.recovering import sole_voter_record
from quorum_node.server.starting.replica_building import log_state
from quorum_node.storage.sole_voter import (
    EPOCH_DISTANCE,
    append_sole_voter,
    rename_replica,
    save_sole_voter,
)
from quorum_simulation.log import Noted, SimulatedLog

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost


@dataclass(frozen=True, slots=True)
class Recovered:
    """The batch with the sole voter stands at `base_offset`, in an epoch of its own.

    `batches`: what the survivor's log held before.
    """

    epoch: int
    base_offset: int
    batches: frozenset[Noted]

    def is_seen_by(self, host: "SimulatedHost") -> bool:
        """Whether the log of this host, or the snapshot that it begins behind, has the recovery."""
        if not host.has_run:
            return False
        batch = host.log.batch_at(self.base_offset)
        if batch is not None:
            return batch[0] == self.base_offset and batch[2] == self.epoch
        start = host.log.start
        frozen = host.disk.snapshots.get(start) or host.disk.set_aside.get(start)
        voters = None if frozen is None else frozen.bounds.voters
        return (
            start.end_offset > self.base_offset
            and voters is not None
            and voters.recovered_epoch == self.epoch
        )


def make_sole_voter(host: "SimulatedHost") -> Recovered:
    """What `--recover` does to the directory of a stopped replica; it has another key from then on."""
    assert not host.up
    machine, cluster = host.machine, host.cluster
    directory = machine.open_directory()
    opened = directory.first
    replica = Replica(
        host.config,
        host.key,
        opened.state,
        log_state(opened),
        host.random.random,
        machine.clock.wall_ms,
    )
    cluster.rename(host)
    sole_voter = host.key
    assert sole_voter.uuid is not None
    epoch = replica.epoch + EPOCH_DISTANCE
    record = sole_voter_record(replica, sole_voter, host.config.endpoints, epoch)
    held = SimulatedLog(opened.log, machine.files, machine.as_written).batches()
    recovered = Recovered(epoch, opened.log.end_offset, frozenset(held))
    append_sole_voter(opened.log, epoch, record, machine.clock.wall_ms())
    save_sole_voter(opened.path, opened.state, epoch, sole_voter, machine.files)
    opened.log.close()
    rename_replica(directory.path, directory.meta, sole_voter.uuid, machine.files)
    return recovered
