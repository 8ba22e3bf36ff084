"""What people read of a replica, and of bytes that make no sense: log lines.

Owns wording, and what is said once. It is told after all that matters has been done, and nothing depends on it.
"""

import structlog

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.outputs import (
    AheadOfLeader,
    CorruptionReported,
    FormationDelayed,
    Halt,
    OlderQuorum,
    ReplicaWentBack,
    RoleChanged,
    Superseded,
    VotersChanged,
)
from quorum_node.raft.roles import CorruptFetch

_LOG = structlog.get_logger("quorum_node")
_MAX_MALFORMED_LINES = 100
_MAX_REPORTS = 100


class _SaidOnce:
    """What was said already. So that nobody can fill the log, at most `_MAX_REPORTS` different things are said in all."""

    def __init__(self) -> None:
        self._said: set[object] = set()

    def is_news(self, what: object) -> bool:
        """Whether to say it now; it counts as said from then on."""
        if what in self._said or len(self._said) >= _MAX_REPORTS:
            return False
        self._said.add(what)
        return True


class ReplicaEvents:
    """Hears what happens to one replica (`ReplicaReporter`). `prefix` names its partition, or is empty."""

    def __init__(self, partition: int = 0, prefix: str = "") -> None:
        self._prefix = prefix
        self._partition = partition
        self._last_role: RoleChanged | None = None
        self._delays, self._ahead = _SaidOnce(), _SaidOnce()
        self._older, self._superseded, self._reported = _SaidOnce(), _SaidOnce(), _SaidOnce()

    def role_changed(self, event: RoleChanged) -> None:
        """Role, leader or epoch changed."""
        if event == self._last_role:
            return
        self._last_role = event
        leader = "no known leader" if event.leader_id == NO_LEADER else f"leader {event.leader_id}"
        role = event.role.value if event.is_voter else f"{event.role.value} (observer)"
        _LOG.info(
            f"{self._prefix}{role} in epoch {event.leader_epoch}, {leader}",
            partition=self._partition,
            role=event.role.value,
            leaderId=event.leader_id,
            leaderEpoch=event.leader_epoch,
            isVoter=event.is_voter,
        )

    def voters_changed(self, event: VotersChanged) -> None:
        """The latest voter set changed, or became committed."""
        voters = ", ".join(str(voter.key) for voter in event.voters)
        state = "committed" if event.committed else "appended"
        target = ""
        if event.target is not None:
            target = "; target voters " + ", ".join(str(key) for key in event.target)
        _LOG.info(
            f"{self._prefix}voters {state} at offset {event.position.offset}: {voters}{target}",
            partition=self._partition,
            votersOffset=event.position.offset,
            votersEpoch=event.position.epoch,
            committed=event.committed,
        )

    def formation_delayed(self, event: FormationDelayed) -> None:
        """A configured voter keeps the static quorum from forming; said once per voter and reason."""
        if not self._delays.is_news((event.voter.id, event.why)):
            return
        _LOG.warning(
            f"{self._prefix}the quorum of controller.quorum.voters has not formed yet: it needs every voter once,"
            f" and voter {event.voter.id} is missing: {event.why}",
            voterId=event.voter.id,
        )

    def ahead_of_leader(self, event: AheadOfLeader) -> None:
        """Committed records are lost, and a replica still has them; said once for each."""
        if not self._ahead.is_news(event.replica):
            return
        _LOG.warning(
            f"{self._prefix}replica {event.replica} has committed records up to offset {event.known_offset}, and"
            f" this leader has them only up to {event.agreed_offset}: stop the replica, and start it on an empty disk",
            replicaId=event.replica.id,
        )

    def replica_went_back(self, event: ReplicaWentBack) -> None:
        """A replica has less than it acknowledged."""
        committed = min(event.acknowledged_offset, event.high_watermark) - event.offset
        lost = f"; {committed} of them are committed" if committed > 0 else ""
        _LOG.warning(
            f"{self._prefix}replica {event.replica} fetches from offset {event.offset}, but had acknowledged all"
            f" before {event.acknowledged_offset}: its disk has lost records{lost}. From now on only the records that it"
            " still has count towards a commit. If its volume was rolled back to an older state, replace the replica:"
            " it may have forgotten a vote as well",
            partition=self._partition,
            replicaId=event.replica.id,
            acknowledgedOffset=event.acknowledged_offset,
            fetchOffset=event.offset,
        )

    def corrupt_fetch(self, event: CorruptFetch) -> None:
        """What the leader sends is damaged; said when it begins, and seldom while it goes on."""
        if event.times & (event.times - 1):
            return
        _LOG.warning(
            f"{self._prefix}leader {event.leader_id} sends damaged records from offset {event.offset} on"
            f" ({event.times} times in a row): {event.detail}. They are not appended. The leader checks its disk now, and"
            " stops if the disk is bad. If it goes on, check the network between the two nodes, or restart the leader",
            partition=self._partition,
            leaderId=event.leader_id,
            offset=event.offset,
            times=event.times,
        )

    def corruption_reported(self, event: CorruptionReported) -> None:
        """A replica says that it is sent damaged records; said once for each offset."""
        if not self._reported.is_news((event.replica, event.offset)):
            return
        _LOG.warning(
            f"{self._prefix}replica {event.replica} received damaged records from offset {event.offset} on. This"
            " node checks its own log there before it sends them again, and stops if its disk is bad. If it goes on, the"
            " records were damaged on the network",
            partition=self._partition,
            replicaId=event.replica.id,
            offset=event.offset,
        )

    def older_quorum(self, event: OlderQuorum) -> None:
        """Voters from before a recovery run on; said once for each leader and epoch."""
        if not self._older.is_news((event.leader.leader_id, event.leader.leader_epoch)):
            return
        _LOG.error(
            f"{self._prefix}voters from before the recovery of epoch {event.recovered_epoch} are still running: one of"
            f" them names leader {event.leader.leader_id} in epoch {event.leader.leader_epoch}. This node does not follow"
            " it. Writes that they acknowledge are not in this quorum: stop them, and keep their disks",
            partition=self._partition,
            leaderId=event.leader.leader_id,
            leaderEpoch=event.leader.leader_epoch,
            recoveredEpoch=event.recovered_epoch,
        )

    def superseded(self, event: Superseded) -> None:
        """This quorum was recovered elsewhere; said once for each recovery and replica."""
        if not self._superseded.is_news((event.replica.id, event.recovered_epoch)):
            return
        _LOG.error(
            f"{self._prefix}replica {event.replica} reports that this quorum was recovered from a survivor in epoch"
            f" {event.recovered_epoch}. This node has no record of that recovery. If the report is right, writes that are"
            " acknowledged here are lost: stop this node and the voters that follow it, and keep their disks",
            partition=self._partition,
            replicaId=event.replica.id,
            recoveredEpoch=event.recovered_epoch,
        )

    def halted(self, event: Halt) -> None:
        """The replica is over."""
        _LOG.info(f"{self._prefix}the replica stops: {event.reason.value}: {event.detail}")


class MalformedBytes:
    """Tells of bytes that are no request or no response, up to a number of lines."""

    def __init__(self) -> None:
        self._lines = 0

    def from_client(self, why: str, detail: str, peer: str) -> None:
        """A connection to the Kafka listener sent what is no request."""
        self._tell(f"closed the connection from {peer}: {why} request: {detail}")

    def from_peer(self, peer: str, detail: str) -> None:
        """A peer answered with what is no response."""
        self._tell(f"closed the connection to {peer}: malformed response: {detail}")

    def _tell(self, text: str) -> None:
        # The counter goes on; the log must not become the second victim of a scan.
        self._lines += 1
        if self._lines <= _MAX_MALFORMED_LINES:
            _LOG.warning(text)
        if self._lines == _MAX_MALFORMED_LINES:
            _LOG.warning("further malformed requests are counted, not logged")
