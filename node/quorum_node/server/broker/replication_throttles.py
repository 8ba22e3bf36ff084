"""Throttles of the replication by which a reassignment fills new replicas: `kafka-reassign-partitions --throttle`.

Owns both quotas of this broker. A leader holds records back from throttled followers, and a follower its fetches of throttled replicas.
Members of the ISR are never throttled, so a throttle does not shrink an ISR. Source: KIP-73; the rules of a stock broker
(`ReplicaManager.shouldLeaderThrottle`, `AbstractFetcherThread`).
"""

from collections.abc import Callable

from quorum_node.broker.leader import Leader
from quorum_node.broker.replication_quota import ReplicationQuota
from quorum_node.server.broker.hosted_replica import HostedReplica


class ReplicationThrottles:
    """`seconds`: a monotonic clock. `is_in_sync`: whether the metadata has this broker's own replica in the ISR."""

    def __init__(
        self, seconds: Callable[[], float], is_in_sync: Callable[[HostedReplica], bool]
    ) -> None:
        self._seconds = seconds
        self._is_in_sync = is_in_sync
        self._leader = ReplicationQuota()
        self._follower = ReplicationQuota()

    def limit(self, leader: float | None, follower: float | None) -> None:
        """Apply `leader.` and `follower.replication.throttled.rate`, in bytes per second; None: no limit."""
        self._leader.limit(leader)
        self._follower.limit(follower)

    def holds_back(self, replica: HostedReplica, follower_id: int) -> bool:
        """Whether the leader sends this follower no records now."""
        return self._is_out_of_sync(replica, follower_id) and self._leader.is_exceeded(
            self._now_ms()
        )

    def sent(self, replica: HostedReplica, follower_id: int, size_bytes: int) -> None:
        """The leader has sent records to a follower."""
        if size_bytes and self._is_out_of_sync(replica, follower_id):
            self._leader.record(size_bytes, self._now_ms())

    def waits(self, replica: HostedReplica) -> bool:
        """Whether this follower is not fetched now."""
        return self._is_catching_up(replica) and self._follower.is_exceeded(self._now_ms())

    def received(self, replica: HostedReplica, size_bytes: int) -> None:
        """This follower has received records."""
        if size_bytes and self._is_catching_up(replica):
            self._follower.record(size_bytes, self._now_ms())

    def _now_ms(self) -> float:
        return self._seconds() * 1000

    def _is_out_of_sync(self, replica: HostedReplica, follower_id: int) -> bool:
        """Whether it is a throttled follower; consumers have negative ids."""
        role = replica.core.role
        if not replica.throttled.as_leader or follower_id < 0 or not isinstance(role, Leader):
            return False
        return follower_id not in role.in_sync.maximal

    def _is_catching_up(self, replica: HostedReplica) -> bool:
        return replica.throttled.as_follower and not self._is_in_sync(replica)
