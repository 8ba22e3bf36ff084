"""Voter sets as found in the simulated logs, worked out apart from the core.

Owns the list of all voters records ever written, by position. Must not ask a replica what it thinks:
the invariants use this to check exactly that.
"""

from typing import TYPE_CHECKING

from quorum_node.raft.voters import VoterSet
from quorum_node.records.batches import CONTROL_FLAG, decode_records, read_header, split_batches
from quorum_node.records.control import VotersRecord, decode_control

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost
    from quorum_simulation.log import SimulatedLog

Found = tuple[int, VoterSet]
"""Offset of a voters record, and what it says."""
_ATTRIBUTES_LOW = 22
"""Where the lower byte of a batch's attributes stands."""


class VoterRecords:
    """(offset, epoch) → voter set."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int, int], list[int]] = {}
        self._sets: dict[tuple[int, int], VoterSet] = {}
        self._noted = 0
        self._of_logs: dict[str, tuple[SimulatedLog, tuple[object, ...], list[Found]]] = {}
        """By address: what was found in a log, and in which state of it."""

    def appended(
        self, host: "SimulatedHost", data: bytes, base_offset: int, epoch: int
    ) -> list[int]:
        """Note the voters in a new batch; returns the offsets of the records."""
        if not data[_ATTRIBUTES_LOW] & CONTROL_FLAG:
            return []
        batch = (base_offset, epoch, read_header(data).crc)
        if batch in self._seen:
            return self._seen[batch]
        found: list[int] = []
        self._seen[batch] = found
        for record in decode_records(split_batches(data)[0][0]):
            control = decode_control(record)
            if isinstance(control, VotersRecord):
                self._sets[(record.offset, epoch)] = VoterSet(control.voters)
                self._noted += 1
                found.append(record.offset)
        return found

    def of_log(self, host: "SimulatedHost") -> list[Found]:
        """All voter sets of a host, oldest first: that of the snapshot it begins behind, and its log's."""
        log = host.log
        state = (log.changes_of_voters, log.start, self._noted)
        known = self._of_logs.get(host.address)
        if known is None or known[0] is not log or known[1] != state:
            known = self._of_logs[host.address] = (log, state, self._look(host))
        return known[2]

    def _look(self, host: "SimulatedHost") -> list[Found]:
        found = []
        start = host.log.start
        frozen = host.disk.snapshots.get(start) or host.disk.set_aside.get(start)
        if frozen is not None and frozen.bounds.voters is not None:
            record = frozen.bounds.voters
            assert record.log_position is not None
            found.append((record.log_position[0], VoterSet(record.voters)))
        for (offset, epoch), voters in self._sets.items():
            batch = host.log.batch_at(offset)
            if batch is not None and batch[2] == epoch:
                found.append((offset, voters))
        return sorted(found, key=lambda each: each[0])

    def sets_in_force(self, host: "SimulatedHost", committed_before: int) -> list[VoterSet]:
        """The latest set of a leader's log, and the one before while the leader's own is not committed.

        `committed_before`: the leader's high watermark before the step that is looked at.
        """
        sets = self.of_log(host)
        latest_offset, latest = sets[-1]
        batch = host.log.batch_at(latest_offset)
        inherited = batch is not None and batch[2] != host.replica.epoch
        if latest_offset < committed_before or inherited or len(sets) == 1:
            return [latest]
        return [latest, sets[-2][1]]
