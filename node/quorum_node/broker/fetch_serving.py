"""The response of a replica to a fetch, before data is read. PURE.

Owns the checks of epochs, offsets and divergence. Must not know the follower's progress.
Source: KIP-320 (leader epochs in a fetch), KIP-392 (followers serve consumers), KIP-595 (divergence in the response),
KIP-903 (broker epochs), each as in a stock 4.3 broker (`Partition.fetchRecords`, `Replica.updateFetchStateOrThrow`); the replication design V3,
"Fetch".
"""

from typing import TYPE_CHECKING

from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import ConsumerFetched, FollowerFetched
from quorum_node.broker.follower_progress import NO_BROKER_EPOCH
from quorum_node.broker.outputs import RefuseFetch, ReportDivergence, ServeFetch
from quorum_node.broker.replica_state import ReplicaState

if TYPE_CHECKING:
    from quorum_node.broker.leader import Leader


def for_follower(leader: "Leader", event: FollowerFetched) -> RefuseFetch | ReportDivergence | None:
    """The refusal or divergence; None if the follower's log matches this one up to its fetch offset."""
    state = leader.state
    error = epoch_error(state, event.leader_epoch)
    if error is BrokerError.NONE and event.replica_id not in leader.followers:
        is_new = event.leader_epoch != NO_EPOCH
        # With the right leader epoch it was added by a reassignment that has not reached this leader yet.
        error = BrokerError.UNKNOWN_LEADER_EPOCH if is_new else BrokerError.NOT_LEADER_OR_FOLLOWER
    if error is not BrokerError.NONE:
        return RefuseFetch(event.request_id, error)
    mismatch = _mismatch(state, event)
    if mismatch is None and _is_of_an_earlier_run(state, event):
        # Its records may have been lost since.
        return RefuseFetch(event.request_id, BrokerError.NOT_LEADER_OR_FOLLOWER)
    return mismatch


def for_consumer(
    state: ReplicaState, event: ConsumerFetched
) -> ServeFetch | RefuseFetch | ReportDivergence:
    """The response to a consumer. An offset between the high watermark and the end gets an empty one, not an error."""
    error = epoch_error(state, event.leader_epoch)
    if error is not BrokerError.NONE:
        return RefuseFetch(event.request_id, error)
    mismatch = _mismatch(state, event)
    if mismatch is not None:
        return mismatch
    log = state.log
    return ServeFetch(
        event.request_id,
        event.fetch_offset,
        max(event.fetch_offset, log.high_watermark),
        log.high_watermark,
        log.start_offset,
    )


def refused_by_follower(
    state: ReplicaState, event: FollowerFetched | ConsumerFetched
) -> RefuseFetch:
    """The refusal of a request that only the leader answers. A wrong epoch comes first."""
    error = epoch_error(state, event.leader_epoch)
    if error is BrokerError.NONE:
        error = BrokerError.NOT_LEADER_OR_FOLLOWER
    return RefuseFetch(event.request_id, error)


def epoch_error(state: ReplicaState, leader_epoch: int) -> BrokerError:
    """The error if the sender's leader epoch, if it sends one, is not the present one; else NONE."""
    if leader_epoch == NO_EPOCH or leader_epoch == state.leader_epoch:
        return BrokerError.NONE
    if leader_epoch < state.leader_epoch:
        return BrokerError.FENCED_LEADER_EPOCH
    return BrokerError.UNKNOWN_LEADER_EPOCH


def _is_of_an_earlier_run(state: ReplicaState, event: FollowerFetched) -> bool:
    """Whether a later run of the follower's process has registered, as far as this leader knows.

    Only the registration counts: an earlier fetch may have had any epoch.
    """
    registered = state.active_brokers.get(event.replica_id, NO_BROKER_EPOCH)
    return NO_BROKER_EPOCH < event.broker_epoch < registered


def _mismatch(
    state: ReplicaState, event: FollowerFetched | ConsumerFetched
) -> RefuseFetch | ReportDivergence | None:
    """The refusal or divergence; None if the sender's log is a part of this one, and its offset is in range."""
    log = state.log
    if event.last_fetched_epoch != NO_EPOCH and event.fetch_offset >= log.start_offset:
        end = log.epochs.end_of(event.last_fetched_epoch, log.end_offset)
        if end is None:
            return RefuseFetch(event.request_id, BrokerError.OFFSET_OUT_OF_RANGE)
        if end.epoch < event.last_fetched_epoch or end.end_offset < event.fetch_offset:
            return ReportDivergence(event.request_id, end)
    if log.start_offset <= event.fetch_offset <= log.end_offset:
        return None
    return RefuseFetch(event.request_id, BrokerError.OFFSET_OUT_OF_RANGE)
