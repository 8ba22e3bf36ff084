"""Fetch, the follower's side: acknowledge, append, truncate, notice a dead leader.

Owns when the next fetch goes out and what its answer does. Must not know other RPCs.
Source: KIP-595, "FetchResponse Handling". A fetch offset is an acknowledgement, so a fetch goes out
only when the whole log is durable (K595-06). A closed connection to the leader is a hint that starts a
pre-vote; safety never rests on it.
"""

from quorum_node.raft.commit import advance_as_follower
from quorum_node.raft.election import campaign, campaign_delay_ms
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.log_appends import append_fetched, truncate
from quorum_node.raft.messages import DivergingEpoch, FetchRequest, FetchResponse
from quorum_node.raft.outputs import FlushLog, HaltReason
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower, Link, Prospective
from quorum_node.raft.transitions import become_unattached, observe_leader
from quorum_node.records.batches import CorruptBatch, split_batches
from quorum_node.records.primitives import MalformedRecord

_ACCEPTED = (RaftError.NONE, RaftError.NOT_FOLLOWER)


def fetch_if_ready(replica: ReplicaState, follower: Follower) -> None:
    """Ask the leader for more, unless a fetch is out, has to wait, or the log is not durable.

    The flush of whatever is not durable was asked for when it was appended.
    """
    if follower.fetching is not None or follower.retry_deadline_ms is not None:
        return
    if replica.durable_end < replica.log_end:
        return
    config = replica.config
    follower.fetching = replica.send(
        follower.endpoint,
        FetchRequest(
            replica.cluster_id,
            replica.key,
            replica.epoch,
            replica.log_end,
            replica.epochs.last_epoch,
            config.fetch_max_wait_ms,
            config.fetch_max_bytes,
            replica.high_watermark,
            follower.answer,
            config.witness,
        ),
        None,
    )


def handle_fetch_response(replica: ReplicaState, correlation: int, response: FetchResponse) -> bool:
    """An answer to a follower's fetch; False if the follower that sent it is no more."""
    follower = _follower_of(replica, correlation)
    if follower is None:
        return False
    follower.fetching = None
    if response.leader.leader_epoch != replica.epoch or response.error not in _ACCEPTED:
        _refused(replica, follower, response)
        return True
    _leader_is_alive(replica, follower)
    follower.answer = response.answer
    try:
        appended = _take_records(replica, response.records)
    except (CorruptBatch, MalformedRecord):
        # The bytes were damaged on their way or on the leader's disk; nothing of them was taken.
        _retry(replica, follower)
        return True
    advance_as_follower(replica, response.high_watermark)
    if appended:
        replica.out.append(FlushLog())
    return True


def handle_fetch_failure(replica: ReplicaState, correlation: int, reason: FailureReason) -> bool:
    """No answer; a closed or refused connection raises the suspicion that the leader is gone."""
    follower = _follower_of(replica, correlation)
    if follower is None:
        return False
    follower.fetching = None
    if reason is FailureReason.TIMEOUT:
        _retry(replica, follower)
    else:
        _suspect(replica, follower)
    return True


def expire_follower(replica: ReplicaState, follower: Follower) -> None:
    """Timer: the leader is silent, a campaign is due, or a fetch has to be repeated."""
    now_ms = replica.now_ms
    idle = follower.link is Link.OPEN or follower.campaign_deadline_ms is None
    if idle and follower.fetch_deadline_ms <= now_ms:
        follower.link = Link.TIMED_OUT
        if not replica.may_campaign():
            become_unattached(replica, replica.epoch)
            return
        follower.campaign_deadline_ms = now_ms
    campaign_ms = follower.campaign_deadline_ms
    if campaign_ms is not None and campaign_ms <= now_ms:
        follower.campaign_deadline_ms = None
        if replica.may_campaign():
            campaign(replica)
            return
        become_unattached(replica, replica.epoch)
        return
    if follower.retry_deadline_ms is not None and follower.retry_deadline_ms <= now_ms:
        follower.retry_deadline_ms = None


def _follower_of(replica: ReplicaState, correlation: int) -> Follower | None:
    """The follower that sent this fetch, also while it doubts its leader."""
    role = replica.role
    follower = role.fallback if isinstance(role, Prospective) else role
    if isinstance(follower, Follower) and follower.fetching == correlation:
        return follower
    return None


def _leader_is_alive(replica: ReplicaState, follower: Follower) -> None:
    follower.link = Link.OPEN
    follower.campaign_deadline_ms = None
    follower.failures = 0
    follower.fetch_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    replica.last_leader_contact_ms = replica.now_ms
    replica.campaigns = 0
    replica.refused_shorter = None
    if replica.role is not follower:
        replica.set_role(follower)


def _refused(replica: ReplicaState, follower: Follower, response: FetchResponse) -> None:
    if observe_leader(replica, response.leader):
        return
    if response.diverging is not None and response.leader.leader_epoch == replica.epoch:
        _leader_is_alive(replica, follower)
        follower.answer = response.answer
        _truncate_to_leader(replica, follower, response.diverging)
        return
    if response.error is RaftError.INVALID_CLUSTER_ID and not replica.is_voter:
        replica.halt(HaltReason.IDENTITY_MISMATCH, "the leader belongs to another cluster")
        return
    if response.error is RaftError.NOT_QUORUM_LEADER:
        _suspect(replica, follower)
    else:
        _retry(replica, follower)


def _truncate_to_leader(
    replica: ReplicaState, follower: Follower, diverging: DivergingEpoch
) -> None:
    """Cut to the last offset that both logs can agree on, and try from there."""
    epoch, end = replica.epochs.end_of(diverging.epoch, replica.log_start, replica.log_end)
    target = min(end, diverging.end_offset) if epoch == diverging.epoch else end
    if target < replica.high_watermark:
        detail = (
            f"the leader of epoch {replica.epoch} wants a truncation to {target},"
            f" but {replica.high_watermark} records are committed"
        )
        replica.halt(HaltReason.CORRUPTION, detail)
        return
    if target >= replica.log_end:
        _retry(replica, follower)  # nothing to cut: the leader's view is not of this log
        return
    truncate(replica, target)


def _take_records(replica: ReplicaState, records: bytes) -> bool:
    if not records:
        return False
    batches, trailing = split_batches(records)
    if not batches and trailing:
        raise CorruptBatch(0, f"{trailing} bytes that are no whole batch")
    return append_fetched(replica, batches)


def _suspect(replica: ReplicaState, follower: Follower) -> None:
    if not replica.is_voter:
        become_unattached(replica, replica.epoch)
        return
    if follower.link is Link.OPEN:
        follower.link = Link.CLOSED
    if not replica.may_campaign():
        # Its vote may be needed: it waits for the next leader to call, and believes nobody meanwhile
        # who still names the old one.
        _retry(replica, follower)
        return
    if follower.campaign_deadline_ms is None and replica.role is follower:
        delay_ms = campaign_delay_ms(replica, replica.campaigns)
        follower.campaign_deadline_ms = replica.now_ms + delay_ms
    _retry(replica, follower)


def _retry(replica: ReplicaState, follower: Follower) -> None:
    follower.failures += 1
    delay_ms = replica.backoff_ms(follower.failures)
    follower.retry_deadline_ms = replica.now_ms + delay_ms
