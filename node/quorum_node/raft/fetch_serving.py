"""Fetch, the leader's side: divergence, progress of replicas, parking, answers.

Owns what a fetch is answered and when. Must not know the bytes: an answer names a range of the log.
Source: KIP-595, "FetchRequest Handling". A parked fetch is answered the moment something is appended,
before the leader's own fsync; a witness's after it. Else a witness could be the only one that has what
the leader lost in a crash, and would refuse its vote to everyone who may lead. For the same reason a leader that
its voters removed, which leaves as soon as that is committed, shows a witness what another voter has, and no more.

Whoever asks again for records that it was sent may have found them damaged (ours say so, stock replicas can't):
then their checksums are looked at on the disk before they are sent once more.
"""

from quorum_node.raft import acknowledgements, inquiry, membership, observer_pace, reads
from quorum_node.raft.cluster_identity import fetcher_is_member, is_foreign
from quorum_node.raft.commit import advance_as_leader
from quorum_node.raft.epoch_bound import within_step
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, ParkedFetch, Progress
from quorum_node.raft.messages import (
    STOCK_SENDER,
    CurrentLeader,
    DivergingEpoch,
    FetchRequest,
    FetchResponse,
    KeepingUp,
    RecordsRange,
)
from quorum_node.raft.outputs import AheadOfLeader, CorruptionReported, Respond, Superseded
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.seen_recoveries import is_superseded, told_leader
from quorum_node.raft.static_quorum import note_sender
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId

CONSUMER_ID = -1
MAX_TRACKED_OBSERVERS = 1000


def handle_fetch(replica: ReplicaState, request_id: int, request: FetchRequest) -> None:
    """Answer now, or park until there is something to tell."""
    leader = replica.role
    error = _refusal(replica, request)
    if error is not None or not isinstance(leader, Leader):
        error = error or RaftError.NOT_QUORUM_LEADER
        start = replica.start.end_offset
        replica.respond(
            request_id, FetchResponse(error, _told_leader(replica, request), log_start_offset=start)
        )
        if is_superseded(replica, request):
            if isinstance(leader, Leader):
                replica.out.append(Superseded(request.replica, request.recovered_epoch))
            return
        yield_to_newer_voter(
            replica, request.cluster_id, request.replica, request.current_leader_epoch
        )
        return
    if replica.ids_only and request.replica.id != CONSUMER_ID:
        _fetcher(replica, leader, request)
        note_sender(replica, request.replica)
    elsewhere = _not_from_the_log(replica, request)
    if elsewhere is not None:
        agreed = elsewhere.end_offset
        doubtful = _note_contact(replica, leader, request, min(agreed, request.fetch_offset))
        if doubtful and isinstance(elsewhere, SnapshotId):  # which would hide what was lost
            start, round_told = replica.start.end_offset, leader.tell_round()
            told = _told_leader(replica, request)
            asked_again = FetchResponse(
                RaftError.NONE, told, log_start_offset=start, answer=round_told
            )
            replica.respond(request_id, asked_again)
            return
        if isinstance(elsewhere, DivergingEpoch) and request.high_watermark > agreed:
            replica.out.append(AheadOfLeader(request.replica, request.high_watermark, agreed))
        replica.respond(
            request_id,
            FetchResponse(
                RaftError.OFFSET_OUT_OF_RANGE,
                _told_leader(replica, request),
                _told_high_watermark(replica, leader),
                replica.start.end_offset,
                diverging=elsewhere if isinstance(elsewhere, DivergingEpoch) else None,
                answer=leader.tell_round(),
                snapshot_id=elsewhere if isinstance(elsewhere, SnapshotId) else None,
            ),
        )
        return
    behind, doubtful, repeated = True, False, False
    if request.replica.id != CONSUMER_ID:
        behind, doubtful, repeated = _note_progress(replica, leader, request)
        if replica.role is not leader:  # its removal was committed by this very fetch
            replica.respond(
                request_id, FetchResponse(RaftError.NOT_QUORUM_LEADER, replica.current_leader())
            )
            return
    if request.corrupt:
        replica.out.append(CorruptionReported(request.replica, request.fetch_offset))
    if doubtful:
        _ask_again(replica, leader, request_id, request)
    elif repeated or request.corrupt:
        _answer(replica, leader, request_id, request, checked=True)
    else:
        _answer_or_park(replica, leader, request_id, request, behind)


def _told_leader(replica: ReplicaState, request: FetchRequest) -> CurrentLeader:
    # (A newcomer's log may be empty: that it tells of no recovery says nothing.)
    return told_leader(replica, request.replica, request.recovered_epoch or -1)


def answer_voters(replica: ReplicaState, leader: Leader) -> None:
    """There is new data: answer the parked fetches of those whom a commit may wait for."""
    urgent = [
        fetch
        for fetch in leader.parked.values()
        if observer_pace.is_urgent(replica, leader, fetch.request)
        and (not fetch.request.witness or _has_news(replica, leader, fetch.request))
    ]
    for fetch in urgent:
        del leader.parked[fetch.request_id]
        _answer(replica, leader, fetch.request_id, fetch.request)


def answer_observers(replica: ReplicaState, leader: Leader) -> None:
    """There is new data: answer some of the others, and let the rest wait for their turns."""
    for fetch in list(leader.parked.values()):
        if fetch.has_turn or not _has_news(replica, leader, fetch.request):
            continue
        if observer_pace.may_answer_now(replica, leader):
            del leader.parked[fetch.request_id]
            _answer(replica, leader, fetch.request_id, fetch.request)
        else:
            observer_pace.wait_for_turn(replica, leader, fetch)


def answer_witnesses(replica: ReplicaState, leader: Leader) -> None:
    """The own log, or a successor's, is durable further than before."""
    for fetch in [each for each in leader.parked.values() if each.request.witness]:
        if _has_news(replica, leader, fetch.request):
            del leader.parked[fetch.request_id]
            _answer(replica, leader, fetch.request_id, fetch.request)


def tell_round(replica: ReplicaState, leader: Leader) -> None:
    """A read began: answer those whose echo can confirm it, or who miss what the read may need.

    Observers that know the high watermark stay parked: a read on one of many must not wake up all.
    """
    parked, leader.parked = leader.parked, {}
    for fetch in parked.values():
        request = fetch.request
        behind = request.high_watermark < replica.high_watermark
        hears_reads = request.answer > STOCK_SENDER and request.replica.id != CONSUMER_ID
        if hears_reads and (behind or _may_confirm(replica, request)):
            _answer(replica, leader, fetch.request_id, request)
        else:
            leader.parked[fetch.request_id] = fetch


def _may_confirm(replica: ReplicaState, request: FetchRequest) -> bool:
    voters = replica.voters
    return request.replica in voters.latest.voters or request.replica in voters.committed.voters


def answer_early(replica: ReplicaState, leader: Leader, request_id: int) -> None:
    """Answer one parked fetch before its time, with what there is."""
    fetch = leader.parked.pop(request_id, None)
    if fetch is not None:
        _answer(replica, leader, request_id, fetch.request)


def expire_parked(replica: ReplicaState, leader: Leader) -> None:
    """Answer fetches whose wait is over."""
    now_ms = replica.now_ms
    due = [fetch for fetch in leader.parked.values() if fetch.deadline_ms <= now_ms]
    for fetch in due:
        del leader.parked[fetch.request_id]
        _answer(replica, leader, fetch.request_id, fetch.request)


def _refusal(replica: ReplicaState, request: FetchRequest) -> RaftError | None:
    if request.cluster_id != replica.cluster_id:
        member = fetcher_is_member(replica, request.replica, request.fetch_offset)
        if is_foreign(replica, request.cluster_id, member=member):
            return RaftError.INVALID_CLUSTER_ID
    if request.recovered_epoch and is_superseded(replica, request):
        return RaftError.NOT_QUORUM_LEADER
    if request.replica.id != CONSUMER_ID or request.current_leader_epoch >= 0:
        if request.current_leader_epoch < replica.epoch:
            return RaftError.FENCED_LEADER_EPOCH
        if request.current_leader_epoch > replica.epoch:
            return RaftError.UNKNOWN_LEADER_EPOCH
    if replica.halted or not isinstance(replica.role, Leader):
        return RaftError.NOT_QUORUM_LEADER
    if request.answer > replica.role.newest_round_told:  # it would confirm reads to come
        return RaftError.INVALID_REQUEST
    if request.replica.id == CONSUMER_ID:
        wanted, committed = request.fetch_offset, replica.high_watermark
        unknown = request.last_fetched_epoch < 0
        if wanted < replica.start.end_offset or (unknown and wanted > committed):
            return RaftError.OFFSET_OUT_OF_RANGE
    elif request.fetch_offset < 0 or request.last_fetched_epoch < 0:
        return RaftError.OFFSET_OUT_OF_RANGE
    return None


def yield_to_newer_voter(
    replica: ReplicaState, cluster_id: str | None, sender: ReplicaKey, epoch: int
) -> None:
    """A voter of the own set that has a newer epoch could never follow this leader: join its epoch.

    It won a pre-vote, so a majority had lost this leader at that time. Nobody else can do this. Anybody can
    send such a request, though, so the voter itself is asked (`inquiry.py`). Where voters are known by id
    alone nothing is written yet, and the request is enough.
    """
    if (
        isinstance(replica.role, Leader)
        and not replica.halted
        and epoch > replica.epoch
        and _is_voter(replica, sender)
        and not is_foreign(replica, cluster_id, member=True)
    ):
        if replica.ids_only and within_step(replica.epoch, epoch):
            become_unattached(replica, epoch, 0.0)
        else:
            inquiry.ask_voter(replica, sender.id)


def _is_voter(replica: ReplicaState, key: ReplicaKey) -> bool:
    voters = replica.voters.latest.voters
    return key in voters or (replica.ids_only and voters.newest(key.id) is not None)


def _not_from_the_log(
    replica: ReplicaState, request: FetchRequest
) -> DivergingEpoch | SnapshotId | None:
    """Where the sender's log leaves ours, or the snapshot that stands for what it lacks.

    The latter when it asks for what is gone, or when nothing is known of its last epoch because that
    lies before our log; and for a log that is empty, as shipped: a snapshot is shorter, and the first
    voters of a stock quorum may be nowhere else.
    """
    offset, last_epoch = request.fetch_offset, request.last_fetched_epoch
    start = replica.start
    if request.replica.id == CONSUMER_ID:
        if last_epoch < 0:
            return None
    elif replica.snapshot is not None and (
        offset == 0
        or offset < start.end_offset
        or last_epoch < start.epoch
        or (offset == start.end_offset and last_epoch != start.epoch)
    ):
        return replica.snapshot
    elif offset == 0:
        return None
    return _divergence(replica, offset, last_epoch)


def _divergence(replica: ReplicaState, offset: int, last_epoch: int) -> DivergingEpoch | None:
    """KIP-595: the largest epoch of our log <= the sender's last one, and that epoch's end."""
    epochs = replica.epochs
    if last_epoch == epochs.last_epoch:  # the common case, without a search
        if offset <= replica.log_end:
            return None
        return DivergingEpoch(last_epoch, replica.log_end)
    epoch, end = epochs.end_of(last_epoch, replica.start.end_offset, replica.log_end)
    if epoch != last_epoch or end < offset:
        return DivergingEpoch(epoch, end)
    return None


def progress_of(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> Progress | None:
    """What is known of a sender; strangers beyond a limit are served but not remembered."""
    progress = leader.progress.get(key)
    if progress is None:
        crowded = len(leader.progress) >= MAX_TRACKED_OBSERVERS
        if crowded and not _is_wanted(replica, key):
            return None
        progress = leader.progress[key] = Progress(key)
    return progress


def _fetcher(replica: ReplicaState, leader: Leader, request: FetchRequest) -> Progress | None:
    """The sender of a Fetch, with what it tells of itself."""
    progress = progress_of(replica, leader, request.replica)
    if progress is not None:
        progress.stock = request.answer == STOCK_SENDER
        progress.witness = request.witness
    return progress


def _is_wanted(replica: ReplicaState, key: ReplicaKey) -> bool:
    """A voter, or one that an AlterQuorum is about to make a voter."""
    latest = replica.voters.latest
    targets = latest.record.target_voters or ()
    return key in latest.voters or any(key.id == wanted.id for wanted in targets)


def _note_contact(
    replica: ReplicaState, leader: Leader, request: FetchRequest, at_most: int
) -> bool:
    """A sender whose log can't be continued from this one: it has no more of it than `at_most`.

    True if it has to be asked again, as in `acknowledgements.holds_at_most`.
    """
    progress = _fetcher(replica, leader, request)
    if progress is None:
        return False
    doubtful = acknowledgements.holds_at_most(replica, leader, progress, request, at_most)
    progress.last_fetch_ms = replica.now_ms
    progress.answer = max(progress.answer, request.answer)
    return doubtful


def _note_progress(
    replica: ReplicaState, leader: Leader, request: FetchRequest
) -> tuple[bool, bool, bool]:
    """The sender has everything before its fetch offset durably; see what follows from that.

    Whether it still lacks some of what was there when it asked before, whether this fetch may be out of
    order, and whether it asks once more for what it was sent.
    """
    key = request.replica
    progress = _fetcher(replica, leader, request)
    if progress is None:
        return False, False, False
    offset, now_ms, acknowledged = request.fetch_offset, replica.now_ms, progress.end_offset
    behind = offset < progress.last_fetch_leader_end
    in_order = acknowledgements.acknowledge(replica, leader, progress, request)
    if in_order:
        end_offset = _served_end(replica, leader, request)
        if offset >= end_offset:
            progress.last_caught_up_ms = now_ms
        elif progress.last_fetch_ms is not None and offset >= progress.last_fetch_leader_end:
            before = progress.last_caught_up_ms
            progress.last_caught_up_ms = max(before or 0.0, progress.last_fetch_ms)
        progress.last_fetch_leader_end = end_offset
    progress.last_fetch_ms = now_ms
    if request.endpoints:
        progress.endpoints = request.endpoints
    if leader.unendorsed:
        leader.unendorsed.discard(key)
    news = request.answer > progress.answer
    if news:
        progress.answer = request.answer
    if progress.end_offset > acknowledged:
        if offset > replica.high_watermark:
            advance_as_leader(replica, leader)
        if not request.witness and replica.key not in replica.voters.latest.voters:
            answer_witnesses(replica, leader)
    if news and leader.reads:
        reads.confirm_reads(replica, leader)
    if leader.change is not None:
        membership.replica_fetched(replica, leader, key)
    membership.resign_if_removed(replica)
    return behind, not in_order or progress.doubted >= 0, behind and offset == acknowledged


def _ask_again(
    replica: ReplicaState, leader: Leader, request_id: int, request: FetchRequest
) -> None:
    """Answer at once whatever the sender waits for: its next fetch tells what it has now.

    Without records while it seems to have lost some: else that fetch could not tell whether it had.
    """
    for fetch in [
        each for each in leader.parked.values() if each.request.replica == request.replica
    ]:
        del leader.parked[fetch.request_id]
        _answer(replica, leader, fetch.request_id, fetch.request)
    progress = leader.progress.get(request.replica)
    lost = progress is not None and progress.doubted >= 0
    _answer(replica, leader, request_id, request, with_records=not lost)


def _served_end(replica: ReplicaState, leader: Leader, request: FetchRequest) -> int:
    """How far the log is shown to the sender (see the module)."""
    if request.replica.id == CONSUMER_ID:
        return replica.high_watermark
    if not request.witness:
        return replica.log_end
    if replica.key in replica.voters.latest.voters:
        return replica.durable_end
    return min(replica.durable_end, _successors_end(replica, leader))


def _successors_end(replica: ReplicaState, leader: Leader) -> int:
    """How far the log of that voter goes that may lead next and has most of it."""
    ends = (
        progress.end_offset
        for key in replica.voters.latest.voters.ordered_keys
        if (progress := leader.progress.get(key)) is not None and progress.witness is False
    )
    return max(replica.high_watermark, *ends, -1)


def _has_news(replica: ReplicaState, leader: Leader, request: FetchRequest) -> bool:
    has_records = request.fetch_offset < _served_end(replica, leader, request)
    if has_records or request.replica.id == CONSUMER_ID:
        return has_records
    return (
        bool(leader.reads)
        and STOCK_SENDER < request.answer < leader.answer_round
        and _may_confirm(replica, request)
    )


def _answer_or_park(
    replica: ReplicaState, leader: Leader, request_id: int, request: FetchRequest, behind: bool
) -> None:
    news = _has_news(replica, leader, request)
    if request.max_wait_ms <= 0 or (
        news
        and (
            behind
            or observer_pace.is_urgent(replica, leader, request)
            or observer_pace.may_answer_now(replica, leader)
        )
    ):
        _answer(replica, leader, request_id, request)
        return
    now_ms = replica.now_ms
    expires_ms = deadline_ms = now_ms + request.max_wait_ms
    if -1 < request.high_watermark < replica.high_watermark:
        deadline_ms = min(deadline_ms, now_ms + replica.config.high_watermark_linger_ms)
    fetch = ParkedFetch(request_id, request, expires_ms, deadline_ms)
    leader.parked[request_id] = fetch
    if news:
        observer_pace.wait_for_turn(replica, leader, fetch)


def _answer(
    replica: ReplicaState,
    leader: Leader,
    request_id: int,
    request: FetchRequest,
    *,
    with_records: bool = True,
    checked: bool = False,
) -> None:
    consumer = request.replica.id == CONSUMER_ID
    limit = _served_end(replica, leader, request)
    data = None
    if request.fetch_offset < limit and with_records:
        data = RecordsRange(request.fetch_offset, limit, request.max_bytes, checked)
    error, keeping_up = RaftError.NONE, None
    if not consumer and request.replica not in replica.voters.latest.voters:
        if _must_be_told(replica, request):
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
                _told_high_watermark(replica, leader),
                replica.start.end_offset,
                None,
                data,
                b"",
                leader.tell_round(),
                None,
                keeping_up,
            ),
        )
    )


def _keeping_up(replica: ReplicaState, leader: Leader, request: FetchRequest) -> KeepingUp | None:
    """How well an observer keeps up; None for a stranger that is not remembered."""
    dirty_offset = 0 if replica.snapshot is None else replica.snapshot.end_offset
    if request.fetch_offset >= replica.log_end:
        return KeepingUp(0, dirty_offset)
    progress = leader.progress.get(request.replica)
    if progress is None or progress.last_caught_up_ms is None:
        return None
    return KeepingUp(round(replica.now_ms - progress.last_caught_up_ms), dirty_offset)


def _told_high_watermark(replica: ReplicaState, leader: Leader) -> int:
    """Unknown (-1) until a record of the own epoch is committed.

    Until then the leader may know less of it than a follower does, and stock replicas fail for good
    when they are told of a high watermark that is below their own.
    """
    return replica.high_watermark if leader.own_epoch_committed else -1


def _must_be_told(replica: ReplicaState, request: FetchRequest) -> bool:
    """A removed voter that can't know of its removal yet, once that is committed (K595-25)."""
    removed_at = replica.voters.removal_offset(request.replica)
    return removed_at is not None and request.fetch_offset <= removed_at < replica.high_watermark
