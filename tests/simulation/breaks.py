"""The code broken on purpose, one way at a time: what the simulation has to catch.

Each break is a function that patches the real code through pytest's monkeypatch. `BREAKS` says what it
stands for, and behind "Would:" what it would do; `test_breaks.py` shows that each is caught, and
docs/evidence/breaks.md lists by what (`make breaks-doc`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.raft import (
    commit,
    election,
    fetch_answers,
    fetch_following,
    fetch_serving,
    handover,
    log_appends,
    membership,
    reads,
    remote_reads,
    transitions,
    vote,
)
from quorum_node.raft.events import LogFlushed
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import VotersPosition
from quorum_node.raft.outputs import ReadConfirmed
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterHistory, VoterSet
from quorum_node.records.identity import Voter
from quorum_node.server.partition.driver import ReplicaDriver

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def skip_the_fsync(patch: Patch) -> None:
    """A flush is reported as done without being done.

    Would: lose acknowledged records when a majority loses power.
    """

    def no_flush(driver: Any, output: object) -> None:
        driver._events.append(LogFlushed(driver._log.end_offset))

    patch.setattr(ReplicaDriver, "_flush", no_flush)


def acknowledge_before_durable(patch: Patch) -> None:
    """A follower fetches on, and so acknowledges, before its flush came back.

    Would: count replicas towards a commit that have nothing on disk.
    """
    real = fetch_following.fetch_if_ready

    def eager(state: ReplicaState, follower: Any) -> None:
        durable, state.durable_end = state.durable_end, state.log_end
        real(state, follower)
        state.durable_end = durable

    patch.setattr(fetch_following, "fetch_if_ready", eager)


def do_not_save_the_vote(patch: Patch) -> None:
    """The vote is sent but never written.

    Would: let a restarted voter vote twice in an epoch.
    """

    def no_save(driver: Any, output: object) -> None:
        driver._events.appendleft(LogFlushed(driver._log.flush()))

    patch.setattr(ReplicaDriver, "_persist", no_save)


def grant_two_votes(patch: Patch) -> None:
    """Whoever is up to date gets the vote, also the second one of an epoch.

    Would: elect two leaders in one epoch.
    """

    def generous(state: ReplicaState, request: Any) -> bool:
        if isinstance(state.role, Leader) or not vote._up_to_date(state, request):
            return False
        state.voted = request.candidate
        transitions.become_unattached(state, state.epoch)
        state.persist()
        return True

    patch.setattr(vote, "_grant_in_epoch", generous)


def ignore_the_log_in_votes(patch: Patch) -> None:
    """A candidate that lacks committed records may win.

    Would: let a new leader truncate what was acknowledged.
    """
    patch.setattr(vote, "_up_to_date", lambda state, request: True)


def count_the_removed_voter(patch: Patch) -> None:
    """Commits count the voters before the change, not those after it.

    Would: commit what the voters that decide from now on do not have.
    """
    real = commit._majority_end

    def old_set(state: ReplicaState, leader: Any, voters: VoterSet) -> int:
        return real(state, leader, state.voters.committed.voters)

    patch.setattr(commit, "_majority_end", old_set)


def let_an_observer_count(patch: Patch) -> None:
    """A voter's missing acknowledgement may come from any observer.

    Would: commit what no majority of voters has.
    """
    real = commit.durable_end_of

    def anyone(state: ReplicaState, leader: Any, key: Any) -> int:
        observers = (
            progress.end_offset
            for progress in leader.progress.values()
            if progress.key not in state.voters.latest.voters
        )
        return max(real(state, leader, key), *observers, -1)

    patch.setattr(commit, "durable_end_of", anyone)


def half_is_a_majority(patch: Patch) -> None:
    """Two of four commit.

    Would: commit on two halves that do not overlap.
    """

    def half(voters: VoterSet, value_of: Any) -> float:
        values = sorted(value_of(key) for key in voters.ordered_keys)
        return values[len(values) // 2]

    patch.setattr(commit, "majority_value", half)


def commit_an_old_epoch(patch: Patch) -> None:
    """The high watermark moves on records of earlier epochs (Raft's figure 8).

    Would: acknowledge a record that a later leader may still overwrite.
    """
    real = transitions.become_leader

    def broken(state: ReplicaState, granted: Any) -> Leader:
        leader = real(state, granted)
        leader.epoch_start_offset = -1
        return leader

    patch.setattr(election, "become_leader", broken)


def accept_a_uuid_change_in_one_record(patch: Patch) -> None:
    """Adding a key of an id that is a voter replaces the old key at once.

    Would: make two majorities possible that share no replica.
    """

    def swapped(voters: VoterSet, voter: Voter) -> VoterSet:
        return VoterSet((*(v for v in voters.voters if v.key.id != voter.key.id), voter))

    patch.setattr(VoterSet, "added", swapped)
    _append_anything(patch)


def change_before_the_last_is_committed(patch: Patch) -> None:
    """A second voters record follows an uncommitted one.

    Would: make two majorities possible that share no replica.
    """
    real = membership._precondition

    def hasty(state: ReplicaState, request: Any) -> Any:
        leader = state.role
        if isinstance(leader, Leader):
            leader.change = None
            leader.own_epoch_committed = True
        refusal = real(state, request)
        pending = refusal is not None and refusal.error.name == "VOTER_CHANGE_PENDING"
        stale = refusal is not None and refusal.error.name == "STALE_VOTERS_POSITION"
        return None if pending or stale else refusal

    patch.setattr(membership, "_precondition", hasty)
    patch.setattr(membership, "replica_fetched", _add_at_once)
    _append_anything(patch)


def keep_truncated_voters(patch: Patch) -> None:
    """A truncation does not restore the previous voters.

    Would: continue to count by a voter set that was never committed.
    """
    patch.setattr(VoterHistory, "truncate", lambda history, end_offset: False)


def read_without_the_round(patch: Patch) -> None:
    """A leader answers reads from its state, without confirming that it still leads.

    Would: return stale values after another leader was elected.
    """

    def at_once(state: ReplicaState, leader: Leader) -> None:
        while leader.reads and leader.own_epoch_committed:
            read = leader.reads.popleft()
            assert read.offset is not None
            state.out.append(ReadConfirmed(read.read_id, read.offset))

    patch.setattr(reads, "confirm_reads", at_once)


def read_a_followers_state_without_the_leader(patch: Patch) -> None:
    """A replica that does not lead answers linearizable reads from what it has.

    Would: answer from the past on every replica that lags.
    """

    def at_once(state: ReplicaState, read_id: int) -> None:
        state.out.append(ReadConfirmed(read_id, state.high_watermark))

    patch.setattr(remote_reads, "request_remote_read", at_once)


def read_before_the_offset_is_reached(patch: Patch) -> None:
    """A follower requests a read offset, and does not wait until it has reached it.

    Would: return stale values until the replica has caught up.
    """
    real = remote_reads._is_waiting

    def hasty(state: ReplicaState, read: Any) -> bool:
        if read.offset is None:
            return real(state, read)
        state.out.append(ReadConfirmed(read.read_id, read.offset))
        return False

    patch.setattr(remote_reads, "_is_waiting", hasty)


def give_a_read_offset_without_the_round(patch: Patch) -> None:
    """A leader, maybe a former one, returns its high watermark as read offset without a confirmation.

    Would: let a leader that was replaced confirm reads of others.
    """
    real = reads._begin

    def at_once(state: ReplicaState, leader: Leader, **who: Any) -> bool:
        if who.get("request_id") is None or not leader.own_epoch_committed:
            return real(state, leader, **who)
        reads._confirmed(state, reads.PendingRead(0, state.high_watermark, **who))
        return False

    patch.setattr(reads, "_begin", at_once)


def serve_after_a_storage_failure(patch: Patch) -> None:
    """A failed disk is shrugged off.

    Would: acknowledge what a broken disk may have lost.
    """
    patch.setattr(handover, "storage_failed", lambda state, detail, disk_full: None)


def ignore_divergence(patch: Patch) -> None:
    """The leader accepts any fetch offset without a check of the epoch.

    Would: let logs differ below the high watermark.
    """
    patch.setattr(fetch_serving, "_divergence", lambda replica, offset, last_epoch: None)


def _append_anything(patch: Patch) -> None:
    def unchecked(state: ReplicaState, voters: VoterSet) -> VotersPosition:
        latest = state.voters.latest
        record = latest.record.__class__(
            voters.voters, latest.record.cluster_id, latest.record.initial_voters
        )
        return VotersPosition(log_appends.append_control(state, (record,)), state.epoch)

    patch.setattr(membership, "_append", unchecked)


def _add_at_once(state: ReplicaState, leader: Leader, key: Any) -> None:
    change = leader.change
    if change is None or change.voter != key or change.position is not None:
        return
    voters = state.voters.latest.voters
    if key not in voters:
        change.phase = membership.ChangePhase.COMMITTING
        change.position = membership._append(
            state, voters.added(membership.voter_entry(key, change.endpoints))
        )


def skip_the_link_check_of_a_pre_vote(patch: Patch) -> None:
    """A pre-vote is granted although the voter's own leader is alive.

    Would: let a voter that was cut off depose a leader that all others hear.
    """
    real = vote._would_grant

    def generous(state: ReplicaState, request: Any, eligible: bool) -> bool:
        patch_role = state.has_responsive_leader
        state.has_responsive_leader = lambda: False  # type: ignore[method-assign]
        try:
            return real(state, request, eligible)
        finally:
            state.has_responsive_leader = patch_role  # type: ignore[method-assign]

    patch.setattr(vote, "_would_grant", generous)


def let_a_witness_be_ahead_of_the_leaders_disk(patch: Patch) -> None:
    """A witness is sent records that are not on the leader's own disk yet.

    Would: leave records on witnesses alone after a crash, so that no voter that may lead gets their votes.
    """
    for module in (fetch_answers, fetch_serving):
        patch.setattr(
            module,
            "served_end",
            lambda state, leader, request: (
                state.high_watermark
                if request.replica.id == fetch_answers.CONSUMER_ID
                else state.log_end
            ),
        )


def campaign_as_a_witness(patch: Patch) -> None:
    """A witness campaigns like any other voter.

    Would: make a replica leader that was set up never to be one.
    """
    real = ReplicaState.may_campaign

    def blind(state: ReplicaState) -> bool:
        config = state.config
        state.config = replace(config, witness=False)
        try:
            return real(state)
        finally:
            state.config = config

    patch.setattr(ReplicaState, "may_campaign", blind)


BY_SIMULATION: tuple[Break, ...] = (
    skip_the_fsync,
    acknowledge_before_durable,
    do_not_save_the_vote,
    ignore_the_log_in_votes,
    count_the_removed_voter,
    let_an_observer_count,
    half_is_a_majority,
    commit_an_old_epoch,
    accept_a_uuid_change_in_one_record,
    change_before_the_last_is_committed,
    keep_truncated_voters,
    read_without_the_round,
    read_a_followers_state_without_the_leader,
    read_before_the_offset_is_reached,
    give_a_read_offset_without_the_round,
    serve_after_a_storage_failure,
    ignore_divergence,
    campaign_as_a_witness,
)
"""Caught by an invariant within the first seeds."""

FAULTS_FOR: dict[Break, frozenset[str]] = {
    broken: frozenset({"isolate leader", "leader with few"})
    for broken in (read_without_the_round, give_a_read_offset_without_the_round)
}
"""Breaks that show only beside a leader that was replaced behind its back: histories made of those."""

BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (grant_two_votes, "figure-8"),
    (commit_an_old_epoch, "figure-8"),
    (skip_the_link_check_of_a_pre_vote, "pre-vote-during-partition"),
    (keep_truncated_voters, "truncated-voter-change"),
    (count_the_removed_voter, "leader-removes-itself"),
    (campaign_as_a_witness, "witness"),
    (let_a_witness_be_ahead_of_the_leaders_disk, "witness-and-one-voter"),
    (read_a_followers_state_without_the_leader, "read-on-an-observer"),
    (read_before_the_offset_is_reached, "read-on-an-observer"),
    (give_a_read_offset_without_the_round, "read-on-an-observer"),
)
"""Caught by a transcript in tests/scenarios, which then goes another way."""
