"""A snapshot holds the state of the committed records before its end, and nothing else (KIP-630).

The state after every committed batch is worked out once, from the log of whoever reports it committed
first. Whatever a replica has replayed or loaded, from the log alone, from a snapshot, or from both,
must be that state. Snapshots of one id are the same to the byte, whoever wrote them (K595-30), and
hold the voters that were in force at their end.
"""

from quorum_node.raft.voters import VoterSet
from quorum_node.records.batches import decode_records
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.snapshot_id import SnapshotId
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation
from quorum_simulation.snapshots import state_in
from quorum_simulation.state import ServiceState


class SnapshotsAreCommittedState(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._newest = ServiceState()
        self._states: dict[int, ServiceState] = {0: self._newest}
        self._epochs: dict[int, int] = {0: 0}
        self._voters: list[tuple[int, int, VoterSet]] = []
        self._bytes: dict[SnapshotId, bytes] = {}

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        if offset <= self._newest.end_offset:
            return
        for batch in host.log.batches_from(self._newest.end_offset):
            end_offset, epoch = batch.header.end_offset, batch.header.leader_epoch
            if end_offset > offset:
                break
            self._newest = self._states[end_offset] = self._newest.after(batch)
            self._epochs[end_offset] = epoch
            if batch.header.is_control:
                for record in decode_records(batch):
                    control = decode_control(record)
                    if isinstance(control, VotersRecord):
                        self._voters.append((record.offset, epoch, VoterSet(control.voters)))

    def applied(self, host: SimulatedHost) -> None:
        state = host.state
        if self._states.get(state.end_offset) != state:
            known = self._states.get(state.end_offset)
            raise Violation(f"{host.address} has state {state}, committed is {known}")

    def snapshot_frozen(self, host: SimulatedHost, id: SnapshotId, data: bytes) -> None:
        if self._epochs.get(id.end_offset) != id.epoch:
            raise Violation(f"{host.address} has snapshot {id}; that is not committed")
        if id in self._bytes:
            if self._bytes[id] != data:
                raise Violation(f"{host.address} has another snapshot {id} than somebody before it")
            return
        self._bytes[id] = data
        state = state_in(id, data)
        if state != self._states[id.end_offset]:
            committed = self._states[id.end_offset]
            raise Violation(
                f"{host.address} has snapshot {id} of {state}, committed is {committed}"
            )
        self._check_voters(host, id)

    def _check_voters(self, host: SimulatedHost, id: SnapshotId) -> None:
        in_force = [each for each in self._voters if each[0] < id.end_offset]
        if not in_force:
            return
        offset, epoch, voters = in_force[-1]
        record = host.disk.snapshots[id].bounds.voters
        keys = None if record is None else VoterSet(record.voters).ordered_keys
        position = None if record is None else record.log_position
        if keys != voters.ordered_keys or position != (offset, epoch):
            raise Violation(
                f"{host.address} has snapshot {id} with voters {keys} of {position}; in force are"
                f" {voters.ordered_keys} of {(offset, epoch)}"
            )
