"""The number of epochs is bounded by the number of faults.

No epoch begins while the leader of the newest one is alive for so many voters that the others are not a majority.
Pre-votes guarantee this, whatever an isolated replica does. Over a whole history there are fewer epochs than faults
and changes of voters.
Whether a leader is alive for a voter is derived from the network: responses to its fetches have arrived for a while,
without a gap and without a closed connection, and the leader has not resigned.
"""

from dataclasses import dataclass

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.messages import FetchResponse, InboundResponse
from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation

LONGEST_GAP_MS = 700.0
"""Longest time between two fetch responses of a healthy voter: a fetch waits for 500 ms."""
CAMPAIGN_MS = 2500.0
"""Maximum age of a granted pre-vote that still counts."""
FOR_NOTHING = 5
"""Number of epochs that the formation or split votes may need."""


@dataclass(slots=True)
class _Link:
    leader_id: int
    epoch: int
    since_ms: float
    last_ms: float


class EpochsNeedAReason(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._links: dict[str, _Link] = {}
        self._leaders: dict[int, SimulatedHost] = {}
        """Current leaders by epoch."""
        self._led_since_ms = 0.0
        """Time since which the newest epoch has a leader: a candidate may have granted a pre-vote just before it won."""
        self._newest = 0
        self._begun: set[int] = set()

    def started(self, host: SimulatedHost) -> None:
        self._links.pop(host.address, None)

    def answered(self, host: SimulatedHost, response: InboundResponse) -> None:
        if not isinstance(response, FetchResponse):
            return
        now_ms = self.cluster.scheduler.now_ms
        if now_ms < host.machine.frozen_until_ms:
            return
        told = response.leader
        link = self._links.get(host.address)
        if (
            link is not None
            and link.leader_id == told.leader_id
            and link.epoch == told.leader_epoch
            and now_ms - link.last_ms <= LONGEST_GAP_MS
        ):
            link.last_ms = now_ms
            return
        self._links[host.address] = _Link(told.leader_id, told.leader_epoch, now_ms, now_ms)

    def request_failed(self, host: SimulatedHost) -> None:
        self._links.pop(host.address, None)

    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        self._leaders = {e: leader for e, leader in self._leaders.items() if leader is not host}
        if change.role is RoleName.LEADER:
            self._leaders[change.leader_epoch] = host
            self._led_since_ms = self.cluster.scheduler.now_ms
        if change.role is RoleName.CANDIDATE and change.leader_epoch > self._newest:
            self._check(host, change.leader_epoch)
        if change.role is RoleName.CANDIDATE:
            self._begun.add(change.leader_epoch)
        self._newest = max(self._newest, change.leader_epoch)

    def finished(self) -> None:
        explained = FOR_NOTHING + self.cluster.disturbances
        if len(self._begun) > explained:
            raise Violation(
                f"{len(self._begun)} epochs, and {explained} faults and changes of voters at most"
            )

    def _check(self, candidate: SimulatedHost, epoch: int) -> None:
        leader = self._leaders.get(self._newest)
        if leader is None or not leader.is_leader or leader.replica.halted:
            return  # a halting replica has already resigned its epoch
        if self.cluster.scheduler.now_ms - self.cluster.forged_end_ms < CAMPAIGN_MS:
            return
        voters = candidate.replica.voters.latest.voters.ordered_keys
        content = [key for key in voters if self._is_content(self.cluster.host_of(key), leader)]
        if len(voters) - len(content) < majority(len(voters)):
            raise Violation(
                f"{candidate.address} begins epoch {epoch}, while {leader.address} leads epoch"
                f" {self._newest} and {len(content)} of {len(voters)} voters hear it:"
                f" {[str(key.id) for key in content]}"
            )

    def _is_content(self, voter: SimulatedHost | None, leader: SimulatedHost) -> bool:
        if voter is None or not voter.up or voter.replica.halted:
            return False
        now_ms = self.cluster.scheduler.now_ms
        if voter is leader:
            return now_ms >= leader.frozen_until_ms and self._led_since_ms <= now_ms - CAMPAIGN_MS
        link = self._links.get(voter.address)
        return (
            link is not None
            and (link.leader_id, link.epoch) == (leader.key.id, self._newest)
            and link.since_ms <= now_ms - CAMPAIGN_MS
            and link.last_ms >= now_ms - LONGEST_GAP_MS
            and now_ms >= voter.frozen_until_ms
        )
