"""What the node tells the world: readable log lines, and the end of the process.

Owns wording and who is told of a halt. Knows nothing of how things come about.
"""

from collections.abc import Callable

import structlog

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.outputs import Halt, RoleChanged, VotersChanged

_LOG = structlog.get_logger("quorum_node")
_MAX_MALFORMED_LINES = 100


class NodeEvents:
    """Receives what happens. `on_halt` and `on_voters` are set by the process."""

    def __init__(self) -> None:
        self.on_halt: Callable[[Halt], None] = lambda halt: None
        self.on_voters: Callable[[VotersChanged], None] = lambda voters: None
        self._malformed_lines = 0
        self._last_role: RoleChanged | None = None

    def role_changed(self, event: RoleChanged) -> None:
        """Role, leader or epoch changed."""
        if event == self._last_role:
            return
        self._last_role = event
        leader = "no known leader" if event.leader_id == NO_LEADER else f"leader {event.leader_id}"
        role = event.role.value if event.is_voter else f"{event.role.value} (observer)"
        _LOG.info(
            f"{role} in epoch {event.leader_epoch}, {leader}",
            role=event.role.value,
            leaderId=event.leader_id,
            leaderEpoch=event.leader_epoch,
            isVoter=event.is_voter,
        )

    def voters_changed(self, event: VotersChanged) -> None:
        """The latest voter set changed, or became committed."""
        voters = ", ".join(str(voter.key) for voter in event.voters)
        state = "committed" if event.committed else "appended"
        _LOG.info(
            f"voters {state} at offset {event.position.offset}: {voters}",
            votersOffset=event.position.offset,
            votersEpoch=event.position.epoch,
            committed=event.committed,
        )
        self.on_voters(event)

    def malformed_client(self, why: str, detail: str, peer: str) -> None:
        """A connection to the Kafka listener sent what is no request."""
        self._malformed(f"closed the connection from {peer}: {why} request: {detail}")

    def malformed_peer(self, peer: str, detail: str) -> None:
        """A peer answered with what is no response."""
        self._malformed(f"closed the connection to {peer}: malformed response: {detail}")

    def _malformed(self, text: str) -> None:
        # The counter goes on; the log must not become the second victim of a scan.
        self._malformed_lines += 1
        if self._malformed_lines <= _MAX_MALFORMED_LINES:
            _LOG.warning(text)
        if self._malformed_lines == _MAX_MALFORMED_LINES:
            _LOG.warning("further malformed requests are counted, not logged")

    def halted(self, event: Halt) -> None:
        """The replica is over."""
        _LOG.info(f"the replica stops: {event.reason.value}: {event.detail}")
        self.on_halt(event)
