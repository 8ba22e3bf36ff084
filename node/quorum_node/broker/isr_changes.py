"""Who is to leave or to join the ISR. PURE.

Owns the rules of shrinking and expanding. Must not know how a change is asked for.
Source: the replication design V3, "ISR expansion and shrinkage"; KIP-841 and KIP-903 (who may join).
"""

from typing import TYPE_CHECKING

from quorum_node.broker.follower_progress import UNKNOWN_OFFSET, FollowerProgress

if TYPE_CHECKING:
    from quorum_node.broker.leader import Leader

Members = tuple[tuple[int, int], ...]


def wanted(leader: "Leader", now_ms: float) -> Members | None:
    """Another ISR as (broker id, broker epoch), or None: nothing is to change, or a change is under way."""
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
    joining = {
        each
        for each, progress in leader.followers.items()
        if each not in committed and _may_join(leader, each, progress)
    }
    return _members(leader, committed | joining) if joining else None


def is_about_to_join(
    leader: "Leader", replica_id: int, progress: FollowerProgress, now_ms: float
) -> bool:
    """Not a member, but caught up and fit: worth waiting for."""
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
    """It has everything that is committed, and the log up to where this epoch begins.

    The second rule matters while the high watermark of a new leader is still behind: a follower could have that much, and
    lack what an earlier leader committed.
    """
    lag_bytes = leader.state.settings.replica_lag_max_bytes
    return (
        _is_fit(leader, replica_id, progress)
        and progress.end_offset >= leader.state.log.high_watermark
        and progress.end_offset >= leader.epoch_start_offset
        and (lag_bytes is None or progress.behind_bytes * 2 < lag_bytes)
    )


def _is_fit(leader: "Leader", replica_id: int, progress: FollowerProgress) -> bool:
    """Alive, and the same run of the process that fetched: a restarted one may have less."""
    return (
        progress.end_offset != UNKNOWN_OFFSET
        and leader.state.active_brokers.get(replica_id) == progress.broker_epoch
    )


def _members(leader: "Leader", ids: frozenset[int]) -> Members:
    """In the order of the replicas, each with the broker epoch that the decision was made for."""
    own, epochs = leader.state.broker_id, leader.state.active_brokers
    return tuple(
        (each, epochs.get(own, -1) if each == own else leader.followers[each].broker_epoch)
        for each in leader.state.replicas
        if each in ids
    )
