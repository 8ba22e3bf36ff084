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
            f"{self._prefix}replica {event.replica} knows records up to {event.known_offset} to be committed, of"
            f" which this leader has those before {event.agreed_offset}: it has to stop, and to begin anew",
            replicaId=event.replica.id,
        )

    def replica_went_back(self, event: ReplicaWentBack) -> None:
        """A replica has less than it acknowledged."""
        committed = min(event.acknowledged_offset, event.high_watermark) - event.offset
        lost = f"; {committed} of them are committed" if committed > 0 else ""
        _LOG.warning(
            f"{self._prefix}replica {event.replica} fetches from offset {event.offset}, but had acknowledged all"
            f" before {event.acknowledged_offset}: its disk has lost records{lost}. Commits count only what it has"
            " now. If its volume was rolled back to an older state, replace the replica, which may have forgotten a"
            " vote, too",
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
            f"{self._prefix}leader {event.leader_id} sends damaged records from offset {event.offset} on, for the"
            f" {event.times}. time in a row: {event.detail}. Nothing of them is taken. A leader of this software checks"
            " its disk now, and stops if that is bad; else look at the network between the two, or restart the leader",
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
            f"{self._prefix}replica {event.replica} found what it was sent from offset {event.offset} on damaged; the"
            " log is checked there before it is sent again. If this disk is bad the node stops now; if nothing follows"
            " the damage came on the way",
            partition=self._partition,
            replicaId=event.replica.id,
            offset=event.offset,
        )

    def older_quorum(self, event: OlderQuorum) -> None:
        """Voters from before a recovery run on; said once for each leader and epoch."""
        if not self._older.is_news((event.leader.leader_id, event.leader.leader_epoch)):
            return
        _LOG.error(
            f"{self._prefix}voters from before the recovery of epoch {event.recovered_epoch} run on: one of them names"
            f" leader {event.leader.leader_id} in epoch {event.leader.leader_epoch}. It is not followed. What they"
            " acknowledge is not in this quorum: stop them, and keep their disks",
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
            f"{self._prefix}replica {event.replica} says that this quorum was recovered from a survivor in epoch"
            f" {event.recovered_epoch}, of which this node knows nothing. If that is so, what is acknowledged here is"
            " lost: stop this node and the other voters that lead with it, and keep their disks",
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
