"""More of the code broken on purpose: single rules, each caught by a transcript or by a unit test.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.raft import (
    begin_end_epoch,
    commit,
    election,
    fetch_answers,
    fetch_serving,
    membership,
    own_entry,
    safety,
    timers,
    transitions,
    vote,
)
from quorum_node.raft import replica as replica_module
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchResponse
from quorum_node.raft.outputs import HighWatermarkAdvanced
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterHistory, VoterSet
from quorum_node.records import batches
from quorum_node.records.identity import ReplicaKey

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def lead_on_without_a_majority(patch: Patch) -> None:
    """A leader without fetches of a majority continues to lead.

    Would: keep clients waiting at a leader that was replaced and perhaps removed.
    """

    def later(state: ReplicaState, leader: Leader) -> None:
        leader.check_quorum_deadline_ms = state.now_ms + state.config.fetch_timeout_ms

    patch.setattr(timers, "check_quorum", later)


def refuse_fetches_of_removed_voters(patch: Patch) -> None:
    """A removed voter gets no answer to its fetches.

    Would: keep it from ever learning of its removal, and deadlock a change that needs its fetch.
    """
    real = fetch_serving.handle_fetch

    def strict(state: ReplicaState, request_id: int, request: Any) -> None:
        if state.voters.removal_offset(request.replica) is not None:
            refused = FetchResponse(RaftError.NOT_QUORUM_LEADER, state.current_leader())
            state.respond(request_id, refused)
            return
        real(state, request_id, request)

    patch.setitem(replica_module._REQUESTS, fetch_serving.FetchRequest, strict)


def vote_under_another_key(patch: Patch) -> None:
    """A replica answers a vote request for another key of its id.

    Would: let a wiped disk vote a second time under the key of the lost one.
    """
    patch.setattr(vote, "_wrong_voter", lambda state, request: None)


def accept_the_epoch_of_an_unknown_candidate(patch: Patch) -> None:
    """An unknown candidate is accepted although a leader is alive.

    Would: let a removed replica, or one that was never a voter, depose leaders repeatedly.
    """
    patch.setattr(ReplicaState, "has_live_leader", lambda state: False)


def take_a_pre_vote_for_a_vote(patch: Patch) -> None:
    """A pre-vote is answered like a vote: the epoch is adopted, and the vote is given.

    Would: spend the vote of an epoch on a candidate that only asked whether it would get one.
    """
    real = vote._decide

    def binding(state: ReplicaState, request: Any) -> Any:
        if request.pre_vote:
            epoch = request.candidate_epoch + 1
            request = replace(request, pre_vote=False, candidate_epoch=epoch)
        return real(state, request)

    patch.setattr(vote, "_decide", binding)


def demand_a_pre_vote_of_everyone(patch: Patch) -> None:
    """A voter without support for pre-votes counts as if it had rejected.

    Would: leave a quorum without a leader while most of its voters run older software.
    """

    def refused(state: ReplicaState, role: Any, peer: ReplicaKey) -> None:
        role.rejected.add(peer)
        election._step_down_if_hopeless(state, role)

    def failed(state: ReplicaState, sent: Any, request: Any, reason: Any) -> None:
        if request.pre_vote and reason is election.FailureReason.UNSUPPORTED:
            refused(state, state.role, sent.peer)
        else:
            real(state, sent, request, reason)

    real = election.handle_vote_failure
    patch.setattr(election, "handle_vote_failure", failed)


def sit_out_a_lost_election(patch: Patch) -> None:
    """A candidate that can't win any more waits for its timeout.

    Would: make every split vote cost an election timeout.
    """
    patch.setattr(election, "_step_down_if_hopeless", lambda state, role: None)


def follow_a_second_leader(patch: Patch) -> None:
    """BeginQuorumEpoch is accepted although another leader of that epoch is known.

    Would: let two leaders of one epoch have followers.
    """
    patch.setattr(begin_end_epoch, "_begin_error", lambda state, request: RaftError.NONE)


def end_any_epoch(patch: Patch) -> None:
    """EndQuorumEpoch is accepted from any sender, for any epoch.

    Would: let a delayed message of an old leader start elections under a live one.
    """
    patch.setattr(begin_end_epoch, "_end_error", lambda state, request: RaftError.NONE)


def serve_fetches_of_any_epoch(patch: Patch) -> None:
    """A fetch is served for any epoch of its sender.

    Would: let an acknowledgement to one leader count for another.
    """
    real = fetch_serving._refusal

    def blind(state: ReplicaState, request: Any) -> RaftError | None:
        error = real(state, request)
        epochs = (RaftError.FENCED_LEADER_EPOCH, RaftError.UNKNOWN_LEADER_EPOCH)
        return None if error in epochs and isinstance(state.role, Leader) else error

    patch.setattr(fetch_serving, "_refusal", blind)


def take_any_cluster_id(patch: Patch) -> None:
    """The cluster id of requests is not checked.

    Would: mix two clusters after an address was given to another one.
    """
    real = fetch_serving._refusal

    def blind(state: ReplicaState, request: Any) -> RaftError | None:
        error = real(state, request)
        return None if error is RaftError.INVALID_CLUSTER_ID else error

    patch.setattr(fetch_serving, "_refusal", blind)


def show_uncommitted_records(patch: Patch) -> None:
    """A consumer is served up to the end of the log.

    Would: show clients what a new leader may take back.
    """
    for module in (fetch_answers, fetch_serving):
        patch.setattr(module, "CONSUMER_ID", -12345)


def let_a_removed_leader_be_ahead_on_a_witness(patch: Patch) -> None:
    """A leader that was removed sends a witness all records of its own disk.

    Would: resign with records on the witness alone, which then rejects every candidate.
    """
    patch.setattr(fetch_answers, "_successors_end", lambda replica, leader: replica.durable_end)


def lead_without_a_record_of_the_own_epoch(patch: Patch) -> None:
    """A new leader writes no LeaderChange.

    Would: leave all earlier records uncommitted until a client writes something.
    """
    real = transitions.append_control

    def silent(state: ReplicaState, records: Any) -> int:
        kept = tuple(r for r in records if not isinstance(r, transitions.LeaderChange))
        return real(state, kept) if kept else state.log_end

    patch.setattr(transitions, "append_control", silent)


def add_next_requester(patch: Patch) -> None:
    """A voter is added whether or not the live ones are a majority with it counted dead.

    Would: let one more failure during the change stop the quorum.
    """
    real = safety.check_add

    def broken(*arguments: Any) -> Any:
        refusal = real(*arguments)
        return None if refusal and refusal.error is RaftError.UNSAFE_CHANGE else refusal

    patch.setattr(safety, "check_add", broken)


def remove_any_voter(patch: Patch) -> None:
    """A voter is removed although too few live ones would remain.

    Would: turn a degraded quorum into a dead one by its own operator.
    """
    real = safety.check_remove

    def broken(*arguments: Any) -> Any:
        refusal = real(*arguments)
        return None if refusal and refusal.error is RaftError.UNSAFE_CHANGE else refusal

    patch.setattr(safety, "check_remove", broken)


def promote_without_catching_up(patch: Patch) -> None:
    """A new replica becomes a voter with its first fetch.

    Would: count a replica without most of the log towards majorities, and stall commits until it has caught up.
    """
    real = membership.replica_fetched

    def at_once(state: ReplicaState, leader: Leader, key: ReplicaKey) -> None:
        if leader.change is not None:
            leader.change.round_target = 0
            leader.change.round_started_ms = state.now_ms
        real(state, leader, key)

    patch.setattr(fetch_serving.membership, "replica_fetched", at_once)


def ignore_the_expected_position(patch: Patch) -> None:
    """A change is made although the voters are not those that the caller has seen.

    Would: let two operators undo each other's changes.
    """
    real = membership._precondition

    def hasty(state: ReplicaState, request: Any) -> Any:
        refusal = real(state, request)
        stale = refusal is not None and refusal.error is RaftError.STALE_VOTERS_POSITION
        return None if stale else refusal

    patch.setattr(membership, "_precondition", hasty)


def campaign_with_every_key(patch: Patch) -> None:
    """While an id is doubled its older key campaigns as well.

    Would: elect, under one id, a replica that Java peers take for the other one.
    """
    patch.setattr(VoterSet, "is_newest", lambda voters, key: key in voters)


def drop_tombstones(patch: Patch) -> None:
    """A removal leaves no tombstone.

    Would: let a removed controller add itself again, as KAFKA-19850 describes.
    """
    patch.setattr(membership, "tombstones_after", lambda tombstones, before, after: ())


def keep_an_old_address(patch: Patch) -> None:
    """A voter with another address does not update its entry.

    Would: make voters unreachable one by one, as they move, until no voter can win an election.
    """
    patch.setattr(own_entry, "_wants_update", lambda state: False)


def move_the_high_watermark_back(patch: Patch) -> None:
    """A follower adopts any high watermark of its leader, also a smaller one.

    Would: let records that were visible vanish from reads.
    """

    def broken(state: ReplicaState, leader_high_watermark: int) -> None:
        state.leader_high_watermark = leader_high_watermark
        committed = min(leader_high_watermark, state.log_end)
        if committed != state.high_watermark and committed >= 0:
            state.high_watermark = committed
            state.out.append(HighWatermarkAdvanced(committed))

    for module in (commit, replica_module.fetch_following):
        patch.setattr(module, "advance_as_follower", broken)


def drop_uncommitted_voters_at_start(patch: Patch) -> None:
    """A voters record that was not committed before a restart does not act after it.

    Would: let a leader and a restarted follower count by different voter sets.
    """
    real = ReplicaState._load_voters

    def committed_only(state: ReplicaState, *arguments: Any) -> VoterHistory:
        history = real(state, *arguments)
        while not history.latest_is_committed:
            history._entries.pop()
        return history

    patch.setattr(ReplicaState, "_load_voters", committed_only)


def skip_the_checksum(patch: Patch) -> None:
    """A batch is interpreted without its CRC-32C being checked.

    Would: append what a broken cable or disk made of a record.
    """

    class Anything(int):
        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = int.__hash__

    patch.setattr(batches, "crc32c", lambda data: Anything(0))


_UNIT = "tests/unit/raft/test_raft_"
BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (lead_on_without_a_majority, "zombie-leader"),
    (refuse_fetches_of_removed_voters, "disruptive-removed-server"),
    (vote_under_another_key, "disk-loss-of-each"),
    (accept_the_epoch_of_an_unknown_candidate, "unknown-candidate"),
    (demand_a_pre_vote_of_everyone, "voter-without-pre-vote"),
    (sit_out_a_lost_election, "gridlock"),
    (add_next_requester, "replacement-add-first"),
    (drop_tombstones, "tombstone"),
    (keep_an_old_address, "voter-moves"),
    (move_the_high_watermark_back, "figure-8"),
)

BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        let_a_removed_leader_be_ahead_on_a_witness,
        f"{_UNIT}witness.py::test_removed_leader_leaves_no_records_on_the_witness_only",
    ),
    (
        take_a_pre_vote_for_a_vote,
        f"{_UNIT}prevote.py::test_granted_pre_vote_is_no_vote",
    ),
    (end_any_epoch, f"{_UNIT}epochs.py::test_end_quorum_epoch_is_validated"),
    (
        follow_a_second_leader,
        f"{_UNIT}epochs.py::test_leader_of_an_epoch_is_persisted_across_a_crash",
    ),
    (
        serve_fetches_of_any_epoch,
        f"{_UNIT}replication.py::test_every_error_response_contains_leader_and_epoch",
    ),
    (
        take_any_cluster_id,
        f"{_UNIT}replication.py::test_other_cluster_id_is_rejected_in_every_request",
    ),
    (
        show_uncommitted_records,
        f"{_UNIT}replication.py::test_consumer_sees_only_committed_records",
    ),
    (
        lead_without_a_record_of_the_own_epoch,
        f"{_UNIT}replication.py::test_new_leader_writes_a_leader_change_record_first",
    ),
    (remove_any_voter, f"{_UNIT}membership.py::test_unsafe_voter_changes_are_rejected"),
    (
        promote_without_catching_up,
        f"{_UNIT}membership.py::test_replication_round_longer_than_the_election_timeout_does_not_qualify",
    ),
    (
        ignore_the_expected_position,
        f"{_UNIT}own_entry.py::test_update_voter_supports_compare_and_set",
    ),
    (
        campaign_with_every_key,
        f"{_UNIT}membership.py::test_only_the_newest_key_of_a_doubled_id_campaigns",
    ),
    (
        skip_the_checksum,
        "tests/unit/records/test_batches.py::test_every_flipped_bit_under_the_checksum_is_detected",
    ),
    (
        drop_uncommitted_voters_at_start,
        f"{_UNIT}membership.py::test_uncommitted_voters_are_found_at_start_after_the_applied_offset",
    ),
)
