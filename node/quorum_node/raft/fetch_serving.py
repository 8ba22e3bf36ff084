"""Fetch on the leader: refusals, divergence, and progress of replicas.

Owns what a fetch implies for its sender, and whether it is served from the log. Must not know when a
response is sent and with how many records (`fetch_answers.py`). Source: KIP-595, "FetchRequest
Handling".

A replica that fetches the same records twice may have received damaged ones. (Our replicas report
this, stock replicas can't.) Then the checksums are verified on the disk before the records are sent
again.
"""

from quorum_node.raft import acknowledgements, inquiry, membership, reads
from quorum_node.raft.check_quorum import note_search
from quorum_node.raft.cluster_identity import fetcher_is_member, is_foreign
from quorum_node.raft.commit import advance_as_leader
from quorum_node.raft.epoch_bound import within_step
from quorum_node.raft.errors import RaftError
from quorum_node.raft.fetch_answers import (
    CONSUMER_ID,
    answer,
    answer_or_park,
    answer_witnesses,
    ask_again,
    sent_high_watermark,
    served_end,
)
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import (
    STOCK_SENDER,
    CurrentLeader,
    DivergingEpoch,
    FetchRequest,
    FetchResponse,
)
from quorum_node.raft.outputs import AheadOfLeader, CorruptionReported, Superseded
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.seen_recoveries import is_superseded, leader_for_sender
from quorum_node.raft.static_quorum import note_sender
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.dialable import why_unusable
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId

MAX_TRACKED_OBSERVERS = 1000
RESERVED_FOR_TARGETS = 100
"""Further replicas that are tracked because a target names their id without a UUID, so that anybody can claim to be it."""


def handle_fetch(replica: ReplicaState, request_id: int, request: FetchRequest) -> None:
    """Answer now, or park the fetch until there is new data."""
    leader = replica.role
    error = _refusal(replica, request)
    if error is not None or not isinstance(leader, Leader):
        error = error or RaftError.NOT_QUORUM_LEADER
        start = replica.start.end_offset
        replica.respond(
            request_id,
            FetchResponse(error, _reported_leader(replica, request), log_start_offset=start),
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
        # A download of the snapshot would hide the loss of records.
        if doubtful and isinstance(elsewhere, SnapshotId):
            start, reported_round = replica.start.end_offset, leader.report_round()
            told = _reported_leader(replica, request)
            asked_again = FetchResponse(
                RaftError.NONE, told, log_start_offset=start, answer=reported_round
            )
            replica.respond(request_id, asked_again)
            return
        if isinstance(elsewhere, DivergingEpoch) and request.high_watermark > agreed:
            replica.out.append(AheadOfLeader(request.replica, request.high_watermark, agreed))
        replica.respond(
            request_id,
            FetchResponse(
                RaftError.OFFSET_OUT_OF_RANGE,
                _reported_leader(replica, request),
                sent_high_watermark(replica, leader),
                replica.start.end_offset,
                diverging=elsewhere if isinstance(elsewhere, DivergingEpoch) else None,
                answer=leader.report_round(),
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
        ask_again(replica, leader, request_id, request)
    elif repeated or request.corrupt:
        answer(replica, leader, request_id, request, checked=True)
    else:
        answer_or_park(replica, leader, request_id, request, behind)


def _reported_leader(replica: ReplicaState, request: FetchRequest) -> CurrentLeader:
    # The log of a new replica may be empty, so it may lack the recovery for a valid reason.
    return leader_for_sender(replica, request.replica, request.recovered_epoch or -1)


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
    if request.answer > replica.role.newest_round_sent:  # it would confirm later reads
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
    """A voter of the own voter set has a newer epoch and could never follow this leader: join its epoch.

    It won a pre-vote, so a majority had lost contact with this leader at that time. Or an
    administrator wants to add this replica, which was told of a false epoch before. Other senders
    are ignored. As requests are not authenticated, the replica itself is asked first (`inquiry.py`).
    While voters are known by id alone nothing has been written yet, and the request is sufficient.
    """
    leader = replica.role
    is_voter = _is_voter(replica, sender)
    if (
        not isinstance(leader, Leader)
        or replica.halted
        or epoch <= replica.epoch
        or is_foreign(replica, cluster_id, member=is_voter)
    ):
        return
    if not is_voter:
        endpoint = membership.endpoint_of_new_voter(replica, leader, sender)
        if endpoint is not None:
            inquiry.ask(replica, endpoint, sender)
    elif replica.ids_only and within_step(replica.epoch, epoch):
        become_unattached(replica, epoch, 0.0)
    else:
        inquiry.ask_voter(replica, sender.id)


def _is_voter(replica: ReplicaState, key: ReplicaKey) -> bool:
    """Also a removed one before the commit, which may need its acknowledgement."""
    voters = replica.voters.latest.voters
    if replica.ids_only and voters.newest(key.id) is not None:
        return True
    return key in replica.voters.counted()


def _not_from_the_log(
    replica: ReplicaState, request: FetchRequest
) -> DivergingEpoch | SnapshotId | None:
    """Where the sender's log diverges from ours, or the snapshot that replaces the records it lacks.

    A snapshot if the sender needs deleted records, or if its last epoch is unknown because it
    precedes the start of our log. Also for an empty log, as in shipped Kafka: a snapshot is shorter,
    and the first voters of a stock quorum may be in the snapshot alone.
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
    """Progress of a sender. Unknown senders beyond a limit are served, but not tracked."""
    progress = leader.progress.get(key)
    if progress is None:
        excess = len(leader.progress) - MAX_TRACKED_OBSERVERS
        if excess >= 0 and not _is_wanted(replica, leader, key, excess):
            return None
        progress = leader.progress[key] = Progress(key)
    return progress


def _fetcher(replica: ReplicaState, leader: Leader, request: FetchRequest) -> Progress | None:
    """Progress of the sender of a Fetch, with its private fields."""
    progress = progress_of(replica, leader, request.replica)
    if progress is not None:
        progress.stock = request.answer == STOCK_SENDER
        progress.witness = request.witness
        progress.damaged_from = request.fetch_offset if request.corrupt else None
    return progress


def _is_wanted(replica: ReplicaState, leader: Leader, key: ReplicaKey, excess: int) -> bool:
    """Whether it is tracked although `excess` more than the limit are: a voter, or a replica that is to become one.

    It also may be the one that a target names by its id, while there is room for those.
    """
    targets = replica.target_voters()
    if _is_voter(replica, key) or key in targets:
        return True
    if leader.change is not None and leader.change.voter == key:
        return True
    return excess < RESERVED_FOR_TARGETS and ReplicaKey(key.id) in targets


def _note_contact(
    replica: ReplicaState, leader: Leader, request: FetchRequest, at_most: int
) -> bool:
    """Note the contact of a sender that can't continue its log from this one: it shares at most `at_most`.

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
    """The sender has everything before its fetch offset durably: update its progress.

    Returns whether it still lacks records that existed at its previous fetch, whether this fetch
    may be out of order, and whether it repeats the fetch of the same records.
    """
    key = request.replica
    progress = _fetcher(replica, leader, request)
    if progress is None:
        return False, False, False
    offset, now_ms, acknowledged = request.fetch_offset, replica.now_ms, progress.end_offset
    behind = offset < progress.last_fetch_leader_end
    in_order = acknowledgements.acknowledge(replica, leader, progress, request)
    if in_order:
        end_offset = served_end(replica, leader, request)
        if offset >= end_offset:
            progress.last_caught_up_ms = now_ms
        elif progress.last_fetch_ms is not None and offset >= progress.last_fetch_leader_end:
            before = progress.last_caught_up_ms
            progress.last_caught_up_ms = max(before or 0.0, progress.last_fetch_ms)
        progress.last_fetch_leader_end = end_offset
    progress.last_fetch_ms = now_ms
    if request.endpoints and why_unusable(request.endpoints) is None:
        progress.endpoints = request.endpoints
    # A replica that only looks for the leader fetches as well, but echoes no answer.
    if request.answer < 0 and request.answer != STOCK_SENDER:
        note_search(replica, leader, key)
    elif leader.unendorsed:
        leader.endorsed_by(key)
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
