"""Rules for leaving and joining the ISR. PURE.

Owns shrinking and expanding. Must not know how a change is requested.
Source: the replication design V3, "ISR expansion and shrinkage"; KIP-841 and KIP-903 (eligibility).
"""

from typing import TYPE_CHECKING

from quorum_node.broker.follower_progress import (
    NO_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    FollowerProgress,
)

if TYPE_CHECKING:
    from quorum_node.broker.leader import Leader

Members = tuple[tuple[int, int], ...]


def wanted(leader: "Leader", now_ms: float) -> Members | None:
    """The new ISR as (broker id, broker epoch), or None if nothing is to change, or a change is in progress."""
    if leader.in_sync.proposal is not None:
        return None
    committed = leader.in_sync.committed
    lagging = {
        each
        for each, progress in leader.followers.items()
        if each in committed and _lags(leader, progress, now_ms)
    }
    if lagging:
        return _members(leader, committed - lagging)
    # Below min.insync.replicas the high watermark stands still, so that a lagging follower may still have all that is
    # committed. It would be removed again at once, and the ISR would change without end.
    joining = {
        each
        for each, progress in leader.followers.items()
        if each not in committed
        and not _lags(leader, progress, now_ms)
        and _may_join(leader, each, progress)
    }
    return _members(leader, committed | joining) if joining else None


def is_about_to_join(
    leader: "Leader", replica_id: int, progress: FollowerProgress, now_ms: float
) -> bool:
    """Whether it is not a member, but caught up and eligible, so that the high watermark waits for it."""
    lag_ms = leader.state.settings.replica_lag_time_max_ms
    return (
        _is_fit(leader, replica_id, progress)
        and progress.end_offset >= leader.state.log.high_watermark
        and not progress.lags_in_time(leader.state.log.end_offset, lag_ms, now_ms)
        and not progress.lags_in_bytes(now_ms)
    )


def _lags(leader: "Leader", progress: FollowerProgress, now_ms: float) -> bool:
    lag_ms = leader.state.settings.replica_lag_time_max_ms
    return progress.lags_in_time(
        leader.state.log.end_offset, lag_ms, now_ms
    ) or progress.lags_in_bytes(now_ms)


def _may_join(leader: "Leader", replica_id: int, progress: FollowerProgress) -> bool:
    """Whether it has everything that is committed, and the log up to the start of this epoch.

    The second condition matters while the high watermark of a new leader is still low: a follower could reach it, and
    lack records that an earlier leader committed.
    """
    lag_bytes = leader.state.settings.replica_lag_max_bytes
    return (
        _is_fit(leader, replica_id, progress)
        and progress.end_offset >= leader.state.log.high_watermark
        and progress.end_offset >= leader.epoch_start_offset
        and (lag_bytes is None or progress.behind_bytes * 2 < lag_bytes)
    )


def _is_fit(leader: "Leader", replica_id: int, progress: FollowerProgress) -> bool:
    """Whether it is active and the present run of its process has fetched: a restarted one may have fewer records.

    A follower whose version of Fetch has no broker epoch is not checked, as on a stock leader.
    """
    active_epoch = leader.state.active_brokers.get(replica_id)
    if progress.end_offset == UNKNOWN_OFFSET or active_epoch is None:
        return False
    return progress.broker_epoch in (NO_BROKER_EPOCH, active_epoch)


def _members(leader: "Leader", ids: frozenset[int]) -> Members:
    """Members in the order of the replicas, each with the broker epoch of the decision."""
    own, epochs = leader.state.broker_id, leader.state.active_brokers
    return tuple(
        (each, epochs.get(own, -1) if each == own else leader.followers[each].broker_epoch)
        for each in leader.state.replicas
        if each in ids
    )
