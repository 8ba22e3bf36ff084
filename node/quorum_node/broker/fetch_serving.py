"""The response of a replica to a fetch, before data is read. PURE.

Owns the checks of epochs, offsets and divergence. Must not know the follower's progress.
Source: KIP-320 (leader epochs in a fetch), KIP-595 (divergence in the response), KIP-903; the replication design V3,
"Fetch".
"""

from typing import TYPE_CHECKING

from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import ConsumerFetched, FollowerFetched
from quorum_node.broker.outputs import RefuseFetch, ServeFetch, TellDivergence
from quorum_node.broker.replica_state import ReplicaState

if TYPE_CHECKING:
    from quorum_node.broker.leader import Leader


def for_follower(leader: "Leader", event: FollowerFetched) -> RefuseFetch | TellDivergence | None:
    """None: the follower's log matches this one up to its fetch offset, and it can be served from there."""
    state = leader.state
    error = epoch_error(state, event.leader_epoch)
    if error is BrokerError.NONE:
        error = _follower_error(leader, event)
    if error is not BrokerError.NONE:
        return RefuseFetch(event.request_id, error)
    log = state.log
    if event.fetch_offset < log.start_offset or event.last_fetched_epoch == NO_EPOCH:
        return _range_refusal(state, event.request_id, event.fetch_offset)
    end = log.epochs.end_of(event.last_fetched_epoch, log.end_offset)
    if end is None:
        return RefuseFetch(event.request_id, BrokerError.OFFSET_OUT_OF_RANGE)
    if end.epoch < event.last_fetched_epoch or end.end_offset < event.fetch_offset:
        return TellDivergence(event.request_id, end)
    return _range_refusal(state, event.request_id, event.fetch_offset)


def for_consumer(state: ReplicaState, event: ConsumerFetched) -> ServeFetch | RefuseFetch:
    """An offset between the high watermark and the end gets an empty response, not an error."""
    if event.leader_epoch is not None:
        error = epoch_error(state, event.leader_epoch)
        if error is not BrokerError.NONE:
            return RefuseFetch(event.request_id, error)
    refusal = _range_refusal(state, event.request_id, event.fetch_offset)
    if refusal is not None:
        return refusal
    log = state.log
    return ServeFetch(
        event.request_id,
        event.fetch_offset,
        max(event.fetch_offset, log.high_watermark),
        log.high_watermark,
        log.start_offset,
    )


def epoch_error(state: ReplicaState, leader_epoch: int) -> BrokerError:
    """The sender has to know the same leader epoch."""
    if leader_epoch < state.leader_epoch:
        return BrokerError.FENCED_LEADER_EPOCH
    if leader_epoch > state.leader_epoch:
        return BrokerError.UNKNOWN_LEADER_EPOCH
    return BrokerError.NONE


def _follower_error(leader: "Leader", event: FollowerFetched) -> BrokerError:
    progress = leader.followers.get(event.replica_id)
    if progress is None:
        return BrokerError.UNKNOWN_LEADER_EPOCH
    if -1 < event.broker_epoch < progress.broker_epoch:
        # A late fetch of an earlier run of the process: its records may have been lost since.
        return BrokerError.NOT_LEADER_OR_FOLLOWER
    return BrokerError.NONE


def _range_refusal(state: ReplicaState, request_id: int, fetch_offset: int) -> RefuseFetch | None:
    if state.log.start_offset <= fetch_offset <= state.log.end_offset:
        return None
    return RefuseFetch(request_id, BrokerError.OFFSET_OUT_OF_RANGE)
