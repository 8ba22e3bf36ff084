"""Fetch on the leader: the content and the time of responses.

Owns parking, the order of responses, and which records a response carries. Must not know what a
fetch implies for its sender (`fetch_serving.py`), nor bytes: a response names a range of the log.
Source: KIP-595, "FetchRequest Handling". A parked fetch is answered as soon as a batch is appended,
before the leader's own fsync; a fetch of a witness is answered after it. Otherwise a witness could
be the only replica with records that the leader lost in a crash, and would refuse its vote to every
possible leader. For the same reason a leader that was removed from the voters, and resigns when
that is committed, sends a witness only records that another voter has.
"""

from quorum_node.raft import observer_pace
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, ParkedFetch
from quorum_node.raft.messages import (
    STOCK_SENDER,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    KeepingUp,
    RecordsRange,
)
from quorum_node.raft.outputs import Respond
from quorum_node.raft.replica_state import ReplicaState

CONSUMER_ID = -1


def answer_voters(replica: ReplicaState, leader: Leader) -> None:
    """New data: answer the parked fetches of all replicas that a commit may depend on."""
    urgent = [
        fetch
        for fetch in leader.parked.values()
        if observer_pace.is_urgent(replica, leader, fetch.request)
        and (not fetch.request.witness or _has_news(replica, leader, fetch.request))
    ]
    for fetch in urgent:
        del leader.parked[fetch.request_id]
        answer(replica, leader, fetch.request_id, fetch.request)


def answer_observers(replica: ReplicaState, leader: Leader) -> None:
    """New data: answer some of the other parked fetches now, and the rest in turns."""
    for fetch in list(leader.parked.values()):
        if fetch.has_turn or not _has_news(replica, leader, fetch.request):
            continue
        if observer_pace.may_answer_now(replica, leader):
            del leader.parked[fetch.request_id]
            answer(replica, leader, fetch.request_id, fetch.request)
        else:
            observer_pace.wait_for_turn(replica, leader, fetch)


def answer_witnesses(replica: ReplicaState, leader: Leader) -> None:
    """The own log, or a successor's, is durable up to a higher offset than before."""
    for fetch in [each for each in leader.parked.values() if each.request.witness]:
        if _has_news(replica, leader, fetch.request):
            del leader.parked[fetch.request_id]
            answer(replica, leader, fetch.request_id, fetch.request)


def report_round(replica: ReplicaState, leader: Leader) -> None:
    """A read began: answer parked fetches whose next echo can confirm it, or whose sender lacks the
    high watermark.

    Observers that have the high watermark stay parked: a read on one of many must not wake all of
    them.
    """
    parked, leader.parked = leader.parked, {}
    for fetch in parked.values():
        request = fetch.request
        behind = request.high_watermark < replica.high_watermark
        hears_reads = request.answer > STOCK_SENDER and request.replica.id != CONSUMER_ID
        if hears_reads and (behind or _may_confirm(replica, request)):
            answer(replica, leader, fetch.request_id, request)
        else:
            leader.parked[fetch.request_id] = fetch


def answer_early(replica: ReplicaState, leader: Leader, request_id: int) -> None:
    """Answer one parked fetch before its deadline, with the available records."""
    fetch = leader.parked.pop(request_id, None)
    if fetch is not None:
        answer(replica, leader, request_id, fetch.request)


def expire_parked(replica: ReplicaState, leader: Leader) -> None:
    """Answer fetches whose maximum wait is over."""
    now_ms = replica.now_ms
    due = [fetch for fetch in leader.parked.values() if fetch.deadline_ms <= now_ms]
    for fetch in due:
        del leader.parked[fetch.request_id]
        answer(replica, leader, fetch.request_id, fetch.request)


def answer_or_park(
    replica: ReplicaState, leader: Leader, request_id: int, request: FetchRequest, behind: bool
) -> None:
    """Answer a valid fetch: now, or when there is new data."""
    news = _has_news(replica, leader, request)
    if request.max_wait_ms <= 0 or (
        news
        and (
            behind
            or observer_pace.is_urgent(replica, leader, request)
            or observer_pace.may_answer_now(replica, leader)
        )
    ):
        answer(replica, leader, request_id, request)
        return
    now_ms = replica.now_ms
    expires_ms = deadline_ms = now_ms + request.max_wait_ms
    if -1 < request.high_watermark < replica.high_watermark:
        deadline_ms = min(deadline_ms, now_ms + replica.config.high_watermark_linger_ms)
    fetch = ParkedFetch(request_id, request, expires_ms, deadline_ms)
    leader.parked[request_id] = fetch
    if news:
        observer_pace.wait_for_turn(replica, leader, fetch)


def ask_again(
    replica: ReplicaState, leader: Leader, request_id: int, request: FetchRequest
) -> None:
    """Answer the sender's parked fetch at once, so that its next fetch reports what it has now.

    Without records while it seems to have lost some. Otherwise that fetch could not confirm the
    loss.
    """
    for fetch in [
        each for each in leader.parked.values() if each.request.replica == request.replica
    ]:
        del leader.parked[fetch.request_id]
        answer(replica, leader, fetch.request_id, fetch.request)
    progress = leader.progress.get(request.replica)
    lost = progress is not None and progress.doubted >= 0
    answer(replica, leader, request_id, request, with_records=not lost)


def answer(
    replica: ReplicaState,
    leader: Leader,
    request_id: int,
    request: FetchRequest,
    *,
    with_records: bool = True,
    checked: bool = False,
) -> None:
    """Answer with the available records; `checked` as in RecordsRange."""
    consumer = request.replica.id == CONSUMER_ID
    limit = served_end(replica, leader, request)
    data = None
    if request.fetch_offset < limit and with_records:
        data = RecordsRange(request.fetch_offset, limit, request.max_bytes, checked)
    error, keeping_up = RaftError.NONE, None
    if not consumer and request.replica not in replica.voters.latest.voters:
        if _lacks_own_removal(replica, request):
            error = RaftError.NOT_FOLLOWER
        keeping_up = _keeping_up(replica, leader, request)
    replica.out.append(
        Respond(
            request_id,
            FetchResponse(
                error,
                CurrentLeader(
                    replica.key.id,
                    replica.epoch,
                    replica.controller_endpoint,
                    replica.recovered_epoch if request.recovered_epoch else -1,
                ),
                sent_high_watermark(replica, leader),
                replica.start.end_offset,
                None,
                data,
                b"",
                leader.report_round(),
                None,
                keeping_up,
            ),
        )
    )


def served_end(replica: ReplicaState, leader: Leader, request: FetchRequest) -> int:
    """Up to which offset the log is sent to this replica (see the module)."""
    if request.replica.id == CONSUMER_ID:
        return replica.high_watermark
    if not request.witness:
        return replica.log_end
    if replica.key in replica.voters.latest.voters:
        return replica.durable_end
    return min(replica.durable_end, _successors_end(replica, leader))


def sent_high_watermark(replica: ReplicaState, leader: Leader) -> int:
    """High watermark in a response: unknown (-1) until a record of the own epoch is committed.

    Until then a follower may have a higher one than the leader. Stock replicas fail for good if
    they receive a high watermark below their own.
    """
    return replica.high_watermark if leader.own_epoch_committed else -1


def _may_confirm(replica: ReplicaState, request: FetchRequest) -> bool:
    voters = replica.voters
    return request.replica in voters.latest.voters or request.replica in voters.committed.voters


def _successors_end(replica: ReplicaState, leader: Leader) -> int:
    """End offset of the voter that may become leader next and has the longest log."""
    ends = (
        progress.end_offset
        for key in replica.voters.latest.voters.ordered_keys
        if (progress := leader.progress.get(key)) is not None and progress.witness is False
    )
    return max(replica.high_watermark, *ends, -1)


def _has_news(replica: ReplicaState, leader: Leader, request: FetchRequest) -> bool:
    has_records = request.fetch_offset < served_end(replica, leader, request)
    if has_records or request.replica.id == CONSUMER_ID:
        return has_records
    return (
        bool(leader.reads)
        and STOCK_SENDER < request.answer < leader.answer_round
        and _may_confirm(replica, request)
    )


def _keeping_up(replica: ReplicaState, leader: Leader, request: FetchRequest) -> KeepingUp | None:
    """State of an observer for KeepingUp; None for a sender that is not tracked."""
    dirty_offset = 0 if replica.snapshot is None else replica.snapshot.end_offset
    if request.fetch_offset >= replica.log_end:
        return KeepingUp(0, dirty_offset)
    progress = leader.progress.get(request.replica)
    if progress is None or progress.last_caught_up_ms is None:
        return None
    return KeepingUp(round(replica.now_ms - progress.last_caught_up_ms), dirty_offset)


def _lacks_own_removal(replica: ReplicaState, request: FetchRequest) -> bool:
    """Whether the sender is a removed voter whose removal is committed, but not in its log yet (K595-25)."""
    removed_at = replica.voters.removal_offset(request.replica)
    return removed_at is not None and request.fetch_offset <= removed_at < replica.high_watermark
