"""Fetch on the follower: acknowledge, append, truncate, detect a failed leader.

Owns when the next fetch is sent and what its response does. Must not know other RPCs.
Source: KIP-595, "FetchResponse Handling". A fetch offset is an acknowledgement, so a fetch is sent
only when the whole log is durable (K595-06).
"""

from quorum_node.raft import following, reads, snapshot_following
from quorum_node.raft.commit import advance_as_follower
from quorum_node.raft.election import campaign
from quorum_node.raft.errors import RaftError
from quorum_node.raft.following import follower_of, leader_is_alive, refused, retry
from quorum_node.raft.log_appends import append_fetched, truncate
from quorum_node.raft.messages import DivergingEpoch, FetchRequest, FetchResponse
from quorum_node.raft.outputs import FlushLog, HaltReason, OlderQuorum
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import CorruptFetch, Follower, Link
from quorum_node.raft.seen_recoveries import is_of_older_quorum
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.batches import CorruptBatch, split_batches
from quorum_node.schema.primitives import MalformedRecord

_LATE_MS = 100.0
"""A timer that is later than this was delayed by SIGSTOP, a paused machine, or a blocked event loop."""
_LITTLE_BYTES = 128 * 1024
_ACCEPTED = (RaftError.NONE, RaftError.NOT_FOLLOWER)


def fetch_if_ready(replica: ReplicaState, follower: Follower) -> None:
    """Fetch from the leader, unless a fetch is in flight or delayed, or the log is not durable.

    The flush was requested when the records were appended.
    """
    if follower.fetching is not None or follower.retry_deadline_ms is not None:
        return
    partial = replica.partial
    if follower.downloading and partial is not None and not partial.finishing:
        snapshot_following.request_part(replica, follower, partial)
        return
    if replica.durable_end < replica.log_end:
        return
    config = replica.config
    follower.fetch_sent_ms = replica.now_ms
    if follower.silence_deadline_ms is None:
        follower.silence_deadline_ms = replica.now_ms + config.silence_ms
    follower.introducing = not (replica.is_voter or follower.introduced)
    follower.fetching = replica.send(
        follower.endpoint,
        FetchRequest(
            replica.reported_cluster_id,
            replica.key,
            replica.epoch,
            replica.log_end,
            replica.epochs.last_epoch,
            config.fetch_max_wait_ms if replica.is_voter else config.observer_fetch_max_wait_ms,
            config.fetch_max_bytes,
            replica.high_watermark,
            follower.answer,
            config.witness,
            config.endpoints if follower.introducing else (),
            follower.corrupt is not None,
            replica.recovered_epoch,
        ),
        None,
        _timeout_ms(replica, follower),
    )


def _timeout_ms(replica: ReplicaState, follower: Follower) -> float | None:
    """Short for the next request after a small response, so that a lost fetch or a dead connection
    is not mistaken for a silent leader.
    """
    if follower.expects_small_answer and not follower.failures and replica.is_voter:
        return min(replica.config.request_timeout_ms, replica.config.silence_ms / 2)
    return None


def handle_fetch_response(replica: ReplicaState, correlation: int, response: FetchResponse) -> bool:
    """Response to a follower's fetch; False if the replica is no longer that follower."""
    follower = follower_of(replica, correlation)
    if follower is None:
        return False
    follower.fetching = None
    if is_of_older_quorum(replica, response.leader):
        replica.out.append(OlderQuorum(response.leader, replica.recovered_epoch))
        become_unattached(replica, replica.epoch)
        return True
    is_of_leader = following.is_of_leader(replica, follower, response.leader)
    if not is_of_leader or response.error not in _ACCEPTED:
        _refused(replica, follower, response)
        return True
    leader_is_alive(replica, follower)
    follower.answer = response.answer
    follower.expects_small_answer = len(response.records) <= _LITTLE_BYTES
    if replica.partial is not None:
        snapshot_following.drop(replica)  # the log of this leader reaches back far enough
    follower.introduced = follower.introduced or follower.introducing
    before = replica.log_end
    try:
        appended = _take_records(replica, follower, response.records)
    except (CorruptBatch, MalformedRecord) as error:
        _damaged(replica, follower, before, error)
        return True
    if appended:
        follower.corrupt = None
    advance_as_follower(replica, response.high_watermark)
    if 0 <= response.high_watermark <= replica.high_watermark:
        # The response was created after the fetch was sent: it reflects everything committed
        # before.
        reads.has_state_as_of(replica, follower.fetch_sent_ms)
    follower.keeping_up = response.keeping_up
    if appended:
        replica.out.append(FlushLog())
    return True


def expire_follower(replica: ReplicaState, follower: Follower) -> None:
    """Timer: the leader is silent, an election is due, or a fetch has to be repeated."""
    now_ms = replica.now_ms
    if _notices_silence(replica, follower):
        campaign(replica)
        return
    idle = follower.link is Link.OPEN or follower.campaign_deadline_ms is None
    if idle and follower.fetch_deadline_ms <= now_ms:
        follower.link = Link.TIMED_OUT
        if replica.ids_only or not replica.may_campaign():
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


def _notices_silence(replica: ReplicaState, follower: Follower) -> bool:
    """Whether the leader is silent, so that a pre-vote is due, while a real election still has to wait.

    A late timer indicates that this process was paused: responses of the leader may be waiting to
    be read.
    """
    now_ms, due_ms = replica.now_ms, follower.silence_deadline_ms
    if due_ms is None or now_ms < due_ms or follower.link is not Link.OPEN:
        return False
    if now_ms - due_ms > _LATE_MS and not follower.excused:
        follower.excused = True
        follower.silence_deadline_ms = now_ms + replica.config.fetch_max_wait_ms
        follower.fetch_deadline_ms = max(follower.fetch_deadline_ms, follower.silence_deadline_ms)
        return False
    if follower.fetch_deadline_ms <= now_ms:
        return False  # the full fetch timeout has passed: see the caller
    follower.link = Link.SILENT
    return replica.may_campaign() and not replica.ids_only


def _refused(replica: ReplicaState, follower: Follower, response: FetchResponse) -> None:
    elsewhere = response.diverging is not None or response.snapshot_id is not None
    if not elsewhere or not following.is_of_leader(replica, follower, response.leader):
        refused(replica, follower, response.error, response.leader)
        return
    leader_is_alive(replica, follower)
    follower.answer = response.answer
    if response.snapshot_id is not None:
        snapshot_following.begin(replica, follower, response.snapshot_id, response.log_start_offset)
    elif response.diverging is not None:
        _truncate_to_leader(replica, follower, response.diverging)


def _truncate_to_leader(
    replica: ReplicaState, follower: Follower, diverging: DivergingEpoch
) -> None:
    """Truncate to the last offset where both logs can agree, and fetch from there."""
    _, end = replica.epochs.end_of(diverging.epoch, replica.start.end_offset, replica.log_end)
    target = min(end, diverging.end_offset)
    if target < replica.high_watermark:
        detail = f"the leader of epoch {replica.epoch} requires a truncation to offset {target}, but this replica knows a high watermark of {replica.high_watermark}"
        replica.halt(HaltReason.CORRUPTION, detail)
        return
    if target >= replica.log_end:
        retry(replica, follower)  # nothing to truncate: the response does not match this log
        return
    truncate(replica, target)


def _damaged(
    replica: ReplicaState, follower: Follower, offset: int, error: CorruptBatch | MalformedRecord
) -> None:
    """The records were damaged on their way or on the leader's disk: report it, and fetch again
    after a growing delay.
    """
    if replica.log_end > offset:  # records before the damaged ones are kept
        replica.out.append(FlushLog())
        follower.corrupt = None
    known = follower.corrupt
    times = 1 if known is None else known.times + 1
    follower.corrupt = CorruptFetch(
        follower.leader_id, replica.epoch, replica.log_end, times, str(error)
    )
    replica.out.append(follower.corrupt)
    follower.retry_deadline_ms = replica.now_ms + replica.backoff_ms(times)


def _take_records(replica: ReplicaState, follower: Follower, records: bytes) -> bool:
    if not records:
        return False
    batches, trailing = split_batches(records)
    if not batches and trailing:
        raise CorruptBatch(0, f"{trailing} bytes that are not a whole batch")
    if snapshot_following.is_contradicted(replica, batches):
        snapshot_following.await_verification(replica, follower)
        return False
    return append_fetched(replica, batches)
