"""Among replicas that know a recovery there is one quorum of the cluster id: the recovered one.

Old voters may continue where the survivor can't reach them; this can't be prevented. But a replica with the recovery
in its log does not follow, append, commit or elect anything of theirs any more, and loses nothing of the recovered
quorum.
"""

from quorum_node.raft.messages import NO_LEADER, Response, VoteResponse
from quorum_node.raft.outputs import Halt, HaltReason, RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.records.batches import read_header
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class OneQuorumPerClusterId(Invariant):
    """Used from the recovery on."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        assert cluster.recovered is not None
        self._recovered = cluster.recovered
        self._saw: set[tuple[str, int]] = set()
        """Address and run of who has seen it."""
        self._leaders: dict[tuple[bool, int], tuple[ReplicaKey, int]] = {}
        """By whether it had seen the recovery, and by epoch."""
        self._led_by_old: set[tuple[int, int]] = set()
        """(leader id, epoch) of the older quorum."""
        self._written: dict[tuple[int, int], int] = {}
        """(base offset, epoch) → CRC of what leaders of the recovered quorum wrote."""
        self._committed: dict[int, tuple[int, int]] = {}
        """Base offset → (epoch, CRC) of what somebody who has seen the recovery counts as committed."""

    def started(self, host: SimulatedHost) -> None:
        batch = host.log.batch_at(self._recovered.base_offset)
        if batch is not None and self._has_seen(host):
            self._written.setdefault((batch[0], batch[2]), batch[3])

    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        has_seen, epoch = self._has_seen(host), change.leader_epoch
        if change.role is RoleName.LEADER:
            leader = (host.key, host.run)
            known = self._leaders.setdefault((has_seen, epoch), leader)
            if known != leader:
                raise Violation(f"epoch {epoch} has two leaders: {known} and {leader}")
            if not has_seen:
                self._led_by_old.add((host.key.id, epoch))
        elif change.role is RoleName.FOLLOWER and has_seen and change.leader_id != NO_LEADER:
            followed = (change.leader_id, epoch)
            if epoch < self._recovered.epoch or followed in self._led_by_old:
                raise Violation(f"{host.address} saw the recovery, and follows {followed}")

    def appended(
        self, host: SimulatedHost, data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None:
        if base_offset < self._recovered.base_offset or not self._has_seen(host):
            return
        crc = read_header(data).crc
        if host.is_leader:
            self._written.setdefault((base_offset, epoch), crc)
        if self._written.get((base_offset, epoch)) != crc:
            raise Violation(
                f"{host.address} saw the recovery, and appends what no leader of the recovered"
                f" quorum wrote: offset {base_offset}, epoch {epoch}"
            )

    def truncated(self, host: SimulatedHost, end_offset: int) -> None:
        saw = (host.address, host.run) in self._saw
        if saw and not self._recovered.is_seen_by(host):
            raise Violation(f"{host.address} saw the recovery, and cuts it off at {end_offset}")

    def responded(self, host: SimulatedHost, request_id: int, response: Response) -> None:
        if not isinstance(response, VoteResponse) or not response.vote_granted:
            return
        request = self.cluster.network.vote_request(host, request_id)
        if request is None or request.pre_vote or not self._has_seen(host):
            return
        candidate = self.cluster.host_of(request.candidate)
        if candidate is None or not self._has_seen(candidate):
            raise Violation(
                f"{host.address} saw the recovery, and votes for {request.candidate} of the older"
                f" quorum in epoch {request.candidate_epoch}"
            )

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        batch = host.log.batch_at(offset - 1)
        if batch is None or batch[0] < self._recovered.base_offset or not self._has_seen(host):
            return
        known = self._committed.setdefault(batch[0], batch[2:])
        if known != batch[2:]:
            raise Violation(
                f"{host.address} saw the recovery, and counts {batch} as committed; elsewhere in the"
                f" recovered quorum that is {known}"
            )

    def halted(self, host: SimulatedHost, output: Halt) -> None:
        """Only who has committed records that the recovered log lacks may contradict it."""
        if output.reason is not HaltReason.CORRUPTION:
            return
        if self._has_seen(host) or self._is_kept(host):
            raise Violation(f"{host.address} has nothing of the older quorum, and halts: {output}")

    def _is_kept(self, host: SimulatedHost) -> bool:
        """Whether the last record that it counts as committed is one that the survivor had.

        Also below the recovery the survivor may have had others, which were never committed.
        """
        committed = host.log.batch_at(host.replica.high_watermark - 1)
        return committed is not None and committed in self._recovered.batches

    def finished(self) -> None:
        """Who follows the recovered quorum has all that it ever committed."""
        for host in self.cluster.hosts.values():
            if not host.up or not self._has_seen(host):
                continue
            for base, known in self._committed.items():
                batch = host.log.batch_at(base)
                if base >= host.log.start_offset and (batch is None or batch[2:] != known):
                    raise Violation(f"{host.address} lacks {base}, which was committed: {batch}")

    def _has_seen(self, host: SimulatedHost) -> bool:
        if (host.address, host.run) in self._saw:
            return True
        has_seen = self._recovered.is_seen_by(host)
        if has_seen:
            self._saw.add((host.address, host.run))
        return has_seen
