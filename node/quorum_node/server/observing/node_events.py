"""Log lines about a replica, and about invalid bytes.

Owns the texts, and which events are logged only once. Called after the event was handled; no other code depends on it.
"""

import time
from collections import Counter
from collections.abc import Callable

import structlog

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.outputs import (
    AheadOfLeader,
    CorruptionReported,
    FormationDelayed,
    Halt,
    HaltReason,
    OlderQuorum,
    ReplicaWentBack,
    RoleChanged,
    Superseded,
    VotersChanged,
)
from quorum_node.raft.roles import CorruptFetch
from quorum_node.server.observing.repeats import is_written

_LOG = structlog.get_logger("quorum_node")
_MAX_MALFORMED_LINES = 100
_MALFORMED_PERIOD_SECONDS = 3600.0
_MAX_REPORTS = 100
_MANY_TIMES = 8
_NO_MAJORITY = "no leader can be elected or reached; check that a majority of the voters runs and that they reach each other"


class _LoggedOnce:
    """Events that were logged already. At most `_MAX_REPORTS` different events are logged in all, so that the log can't be flooded."""

    def __init__(self) -> None:
        self._said: set[object] = set()

    def is_new(self, what: object) -> bool:
        """Whether the event is new; it counts as logged from then on."""
        if what in self._said or len(self._said) >= _MAX_REPORTS:
            return False
        self._said.add(what)
        return True


class _RolesOfEpoch:
    """How often each role was taken in the current epoch. Without a majority, roles alternate until there is one again."""

    def __init__(self) -> None:
        self._epoch = -1
        self._times: Counter[RoleChanged] = Counter()

    def count(self, event: RoleChanged) -> int:
        """How often this role was taken in this epoch, this time included."""
        if event.leader_epoch != self._epoch:
            self._epoch = event.leader_epoch
            self._times.clear()
        self._times[event] += 1
        return self._times[event]


class ReplicaEvents:
    """Logs the events of one replica (`ReplicaReporter`). `prefix` names its partition, or is empty."""

    def __init__(self, partition: int = 0, prefix: str = "") -> None:
        self._prefix = prefix
        self._partition = partition
        self._last_role: RoleChanged | None = None
        self._roles = _RolesOfEpoch()
        self._delays, self._ahead = _LoggedOnce(), _LoggedOnce()
        self._older, self._superseded, self._reported = _LoggedOnce(), _LoggedOnce(), _LoggedOnce()

    def role_changed(self, event: RoleChanged) -> None:
        """Role, leader or epoch changed; logged more and more rarely while the same roles return in one epoch."""
        if event == self._last_role:
            return
        self._last_role = event
        times = self._roles.count(event)
        if not is_written(times):
            return
        leader = "no known leader" if event.leader_id == NO_LEADER else f"leader {event.leader_id}"
        role = event.role.value if event.is_voter else f"{event.role.value} (observer)"
        repeated = "" if times < _MANY_TIMES else f", {times} times by now: {_NO_MAJORITY}"
        _LOG.info(
            f"{self._prefix}{role} in epoch {event.leader_epoch}, {leader}{repeated}",
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
        """A configured voter keeps the static quorum from forming; logged once per voter and reason."""
        if not self._delays.is_new((event.voter.id, event.why)):
            return
        _LOG.warning(
            f"{self._prefix}the quorum of controller.quorum.voters has not formed yet: to form, it needs every voter once,"
            f" and voter {event.voter.id} is missing: {event.why}",
            voterId=event.voter.id,
        )

    def ahead_of_leader(self, event: AheadOfLeader) -> None:
        """Committed records are lost, but a replica still has them; logged once for each replica."""
        if not self._ahead.is_new(event.replica):
            return
        _LOG.warning(
            f"{self._prefix}replica {event.replica} has committed records up to offset {event.known_offset}, and"
            f" this leader has them only up to {event.agreed_offset}: stop the replica, and start it on an empty disk",
            replicaId=event.replica.id,
        )

    def replica_went_back(self, event: ReplicaWentBack) -> None:
        """A replica has fewer records than it acknowledged."""
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
        """The leader sends damaged records; logged when it begins, and rarely while it continues."""
        if not is_written(event.times):
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
        """A replica reports damaged records from this leader; logged once for each offset."""
        if not self._reported.is_new((event.replica, event.offset)):
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
        """Voters from before a recovery are still running; logged once for each leader and epoch."""
        if not self._older.is_new((event.leader.leader_id, event.leader.leader_epoch)):
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
        """This quorum was recovered elsewhere; logged once for each recovery and replica."""
        if not self._superseded.is_new((event.replica.id, event.recovered_epoch)):
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
        """The replica has halted."""
        tell = _LOG.info if event.reason is HaltReason.SHUTDOWN else _LOG.error
        tell(f"{self._prefix}the replica stops: {event.reason.value}: {event.detail}")


class MalformedBytes:
    """Logs invalid requests and responses, up to a number of lines in an hour. `clock`: in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = 0
        self._since_s = clock()

    def from_client(self, why: str, detail: str, peer: str) -> None:
        """A connection to the Kafka listener sent invalid bytes."""
        self._tell(f"closed the connection from {peer}: {why} request: {detail}")

    def from_peer(self, peer: str, detail: str) -> None:
        """A peer answered with invalid bytes."""
        self._tell(f"closed the connection to {peer}: malformed response: {detail}")

    def _tell(self, text: str) -> None:
        # A port scan must not flood the log, and must not hide what comes long after it.
        now_s = self._clock()
        if now_s - self._since_s >= _MALFORMED_PERIOD_SECONDS:
            self._lines, self._since_s = 0, now_s
        self._lines += 1
        if self._lines <= _MAX_MALFORMED_LINES:
            _LOG.warning(text)
        if self._lines == _MAX_MALFORMED_LINES:
            _LOG.warning("further malformed requests of this hour are counted, not logged")
