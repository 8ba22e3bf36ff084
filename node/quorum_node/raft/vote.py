"""Vote: responses to candidates.

Owns granting. Must not know own elections, except to delay them.
Source: KIP-595, "Vote Request Handling" (K595-07, K595-08); KIP-853, replica keys; KIP-650,
pre-vote.

* A request for another key is refused: a replica with an emptied disk must not vote under its old
key.
* One key at most gets the vote of an epoch. The vote is durable before it is sent.
* A candidate outside of the own voter set is refused. With a live leader its epoch is not taken
either. Otherwise the epoch is taken, and this voter starts an election itself. If that fails, the
next candidate outside of the set can get the vote: a record that has not arrived here may have made
it a voter, and it may be the only one with a log that can win. (In the simulation the KIP draft's
rule left three of four live voters without a leader for good. Granting is safe: the vote counts
only in the candidate's own voter set, and the comparison of logs applies to all.)
* A candidate of the quorum before a known recovery is refused, and its epoch is not taken.
* A replica outside of its own voter set votes only if the request names its exact key. A record in
the candidate's log, which has not arrived here, makes it a voter. While it is in contact with a
leader it refuses and takes no epoch; a leader without majority resigns soon.
* Before a static quorum has formed, votes are requested by id alone: see `static_quorum.py`.
* A pre-vote changes nothing. It is granted only if the own link to the leader is closed or timed
out, here after half the fetch timeout (`RaftConfig.silence_ms`). A majority of such voters can
replace a leader that returns before it would resign by itself. That costs an election but no
record, as the votes that follow obey the same rules.
"""

from quorum_node.raft import inquiry
from quorum_node.raft.cluster_identity import is_foreign
from quorum_node.raft.election import refused_shorter_log, step_down
from quorum_node.raft.epoch_bound import within_step
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import NO_LEADER, VoteRequest, VoteResponse
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower, Prospective, Unattached
from quorum_node.raft.seen_recoveries import is_older_candidate, leader_for_sender
from quorum_node.raft.static_quorum import refuse_candidate
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.identity import ReplicaKey


def handle_vote(replica: ReplicaState, request_id: int, request: VoteRequest) -> None:
    """Grant or refuse a vote."""
    granted, error = _decide(replica, request)
    leader = leader_for_sender(replica, request.candidate, request.recovered_epoch)
    replica.respond(request_id, VoteResponse(error, leader, granted))


def _decide(replica: ReplicaState, request: VoteRequest) -> tuple[bool, RaftError]:
    if is_foreign(replica, request.cluster_id, member=not request.static_voters):
        return False, RaftError.INVALID_CLUSTER_ID
    if request.candidate.id < 0:  # quorum-state can't hold a vote for it: -1 is no vote
        return False, RaftError.INCONSISTENT_VOTER_SET
    refusal = _wrong_voter(replica, request)
    if refusal is not None:
        return False, refusal
    if is_older_candidate(replica, request):
        return False, RaftError.INCONSISTENT_VOTER_SET
    if request.candidate_epoch < replica.epoch:
        return False, RaftError.FENCED_LEADER_EPOCH
    addressed = request.voter == replica.key
    if not within_step(replica.epoch, request.candidate_epoch):
        if addressed and inquiry.knows_id(replica, request.candidate.id):
            replica.distant_candidates.add(request.candidate.id)
        inquiry.ask_voter(replica, request.candidate.id)
        return False, RaftError.UNKNOWN_LEADER_EPOCH
    if not replica.is_voter and not addressed:
        return False, RaftError.INCONSISTENT_VOTER_SET
    eligible = _is_known(replica, request.candidate) or _trusts_unknown_candidates(replica)
    if not replica.is_voter and replica.has_live_leader():
        # Its vote can't be needed while that leader has a majority. With a forged epoch it could
        # not follow the leader.
        eligible = False
    if request.pre_vote:
        return _would_grant(replica, request, eligible), RaftError.NONE
    if not eligible:
        if not replica.has_live_leader() and request.candidate_epoch > replica.epoch:
            # The rule of the KIP draft: a record that this replica does not have, or did not have,
            # may have made it a voter.
            become_unattached(replica, request.candidate_epoch, _soon_ms(replica))
        return False, RaftError.INCONSISTENT_VOTER_SET
    if request.candidate_epoch > replica.epoch:
        granted = _up_to_date(replica, request)
        delay_ms = None if granted else _remaining_ms(replica)
        become_unattached(replica, request.candidate_epoch, delay_ms, persist=False)
        if granted:
            replica.set_vote(request.candidate)
        replica.persist()
        return granted, RaftError.NONE
    return _grant_in_epoch(replica, request), RaftError.NONE


def _wrong_voter(replica: ReplicaState, request: VoteRequest) -> RaftError | None:
    """Whether the request names another key, or the id alone, which is valid only during the
    formation of a static quorum.
    """
    if request.static_voters:
        return refuse_candidate(replica, request)
    if request.voter is not None and request.voter != replica.key:
        return RaftError.INVALID_VOTER_KEY
    if request.voter is None and replica.ids_only:
        return RaftError.INVALID_VOTER_KEY
    return None


def _is_known(replica: ReplicaState, candidate: ReplicaKey) -> bool:
    if replica.ids_only:
        return replica.voters.latest.voters.newest(candidate.id) is not None
    return replica.voters.latest.voters.is_newest(candidate)


def _grant_in_epoch(replica: ReplicaState, request: VoteRequest) -> bool:
    if replica.voted is not None:
        return replica.voted == request.candidate
    if replica.leader_id != NO_LEADER or replica.remembered_leader_id != NO_LEADER:
        return False
    if not _up_to_date(replica, request):
        return False
    replica.set_vote(request.candidate)
    become_unattached(replica, replica.epoch)
    replica.persist()
    return True


def _trusts_unknown_candidates(replica: ReplicaState) -> bool:
    """Whether candidates outside of the voter set are accepted: no leader is alive, and own
    elections failed or are not possible.
    """
    if replica.has_live_leader():
        return False
    return replica.campaigns > 0 or not replica.may_campaign()


def _would_grant(replica: ReplicaState, request: VoteRequest, eligible: bool) -> bool:
    if replica.has_responsive_leader() or not eligible:
        return False
    up_to_date = _up_to_date(replica, request)
    if request.candidate_epoch > replica.epoch:
        delay_ms = None if up_to_date else _remaining_ms(replica)
        become_unattached(replica, request.candidate_epoch, delay_ms)
    if not up_to_date:
        return False
    _delay_own_campaign(replica, request)
    return True


def _remaining_ms(replica: ReplicaState) -> float | None:
    """Remaining time until the own election; None: none is due.

    A refused candidate must not delay it. Otherwise a candidate with a shorter log that asks again
    and again, without pre-votes, could keep the only voter that can win from starting an election.
    """
    role = replica.role
    if not isinstance(role, Unattached) or role.election_deadline_ms is None:
        return None
    return max(0.0, role.election_deadline_ms - replica.now_ms)


def _up_to_date(replica: ReplicaState, request: VoteRequest) -> bool:
    """KIP-595: the higher last epoch wins; with equal epochs the longer log."""
    theirs = (request.last_epoch, request.last_epoch_end_offset)
    if theirs >= (replica.epochs.last_epoch, replica.log_end):
        return True
    refused_shorter_log(replica, request.candidate)
    return False


def _delay_own_campaign(replica: ReplicaState, request: VoteRequest) -> None:
    """The sender of this pre-vote will request votes in a moment, and two elections would split them.

    Of two replicas that ask each other, the one with the shorter log (then the smaller id) waits.
    """
    role = replica.role
    if isinstance(role, Prospective):
        own = (replica.epochs.last_epoch, replica.log_end, replica.key.id)
        if (request.last_epoch, request.last_epoch_end_offset, request.candidate.id) > own:
            step_down(replica, role)
        return
    earliest_ms = replica.now_ms + replica.config.link_jitter_ms * (2 + replica.jitter())
    if isinstance(role, Follower) and role.campaign_deadline_ms is not None:
        role.campaign_deadline_ms = max(role.campaign_deadline_ms, earliest_ms)
    if isinstance(role, Unattached) and role.election_deadline_ms is not None:
        role.election_deadline_ms = max(role.election_deadline_ms, earliest_ms)


def _soon_ms(replica: ReplicaState) -> float:
    return replica.config.link_jitter_ms * (0.2 + 0.8 * replica.jitter())
