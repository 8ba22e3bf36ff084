"""Batches that one replica has reported as committed are in every later leader's log and on every replica.

Committed batches form one sequence for the whole history, whoever reports them; no replica truncates
below what it knows to be committed, or begins its log anew below it; every acknowledged write is in
that sequence, and at the end in every replica's log, or before it: what a snapshot has to hold then,
`snapshots_are_committed_state.py` knows.
"""

from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_simulation.clients import Acknowledged
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation

Batch = tuple[int, int, int, int]
LONGEST_BATCH = 500
"""Maximum number of records in a batch: the clients that wait at the same time."""


class CommittedNeverLost(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.committed: dict[int, Batch] = {}
        self.end_offset = 0
        self._ends: list[tuple[int, int]] = []
        self._checked: dict[tuple[str, int], int] = {}

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        run = (host.address, host.run)
        position = max(self._checked.get(run, 0), host.log.start_offset)
        while position < offset:
            batch = host.log.batch_at(position)
            if batch is None or batch[1] > offset:
                raise Violation(f"{host.address} says {offset} is committed, and has {batch}")
            known = self.committed.setdefault(batch[0], batch)
            if known != batch:
                raise Violation(f"{host.address} committed {batch}, but {known} was committed")
            position = batch[1]
        self._checked[run] = position
        if position > self.end_offset:
            self.end_offset = position
            self._ends.append((host.replica.epoch, position))

    def truncated(self, host: SimulatedHost, end_offset: int) -> None:
        if end_offset < self._checked.get((host.address, host.run), 0):
            raise Violation(f"{host.address} truncated committed records from {end_offset} on")

    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        if change.role is RoleName.LEADER:
            # A leader of a superseded epoch may appear late without the records of newer epochs: it
            # can't commit anything.
            ends = [end for epoch, end in self._ends if epoch < change.leader_epoch]
            self._check_end(host, max(ends, default=0), "became leader")

    def acknowledged(self, write: Acknowledged) -> None:
        batch = self._batch_of(write)
        if batch is None or batch[1] < write.end_offset or batch[2] != write.epoch:
            raise Violation(f"{write} was acknowledged, but {batch} is committed there")

    def _batch_of(self, write: Acknowledged) -> Batch | None:
        """Return the batch of a write. Several writes may share a batch, but a write is never in two."""
        for base in range(write.base_offset, max(-1, write.base_offset - LONGEST_BATCH), -1):
            if base in self.committed:
                return self.committed[base]
        return None

    def finished(self) -> None:
        for host in self.cluster.members():
            self._check_end(host, self.end_offset, "survived")
            self._check_whole_log(host)
        for write in self.cluster.clients.acknowledged:
            self.acknowledged(write)

    def _check_end(self, host: SimulatedHost, end_offset: int, what: str) -> None:
        if end_offset <= host.log.start_offset:
            return  # covered by a snapshot completely
        last = host.log.batch_at(end_offset - 1)
        if last is None or self.committed.get(last[0]) != last:
            raise Violation(
                f"{host.address} {what} without all that is committed: it has {last} before"
                f" offset {end_offset}"
            )

    def _check_whole_log(self, host: SimulatedHost) -> None:
        position = host.log.start_offset
        while position < self.end_offset:
            batch = host.log.batch_at(position)
            if batch is None or self.committed.get(position) != batch:
                raise Violation(f"{host.address} lost {self.committed.get(position)}")
            position = batch[1]
