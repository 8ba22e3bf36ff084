"""Vote: how a replica answers candidates.

Owns granting. Must not know campaigns of its own beyond delaying them.
Source: KIP-595, "Vote Request Handling" (K595-07, K595-08); KIP-853, replica keys; KIP-650, pre-vote.

* A request for another key is refused: an empty disk never votes as its old self.
* At most one key gets the vote of an epoch, and the vote is durable before it is told.
* A candidate that is not in the own voter set: refused. While a leader is alive its epoch is not
  taken either; otherwise it is, and this voter campaigns itself. If that was in vain, the next one
  gets the vote after all: it may be a voter by a record that has not arrived here, and with a log that
  nobody else's reaches it may be the only one who can win. (The simulation showed the draft's rule
  alone without a leader for good, with three of four voters alive. Granting is safe: the vote counts
  only in the candidate's own voter set, and the log comparison holds for everyone.)
* A candidate of the quorum from before a recovery that this replica has seen: refused, and its epoch is not taken.
* A replica that is not in its own voter set votes only if the candidate asks for exactly its key: the
  candidate's log then makes it a voter, by a record that has not arrived here yet.
  While it hears a leader it refuses, and takes no epoch: a leader that has lost its majority resigns soon.
* Before a static quorum has formed, votes are asked for by id alone: see `static_quorum.py`.
* A pre-vote changes nothing and is granted only if the own link to the leader is closed or timed out. A link times
  out for this when a fetch is unanswered for half the fetch timeout (`RaftConfig.silence_ms`). A majority of such
  voters can depose a leader that comes back before it would resign by itself: that costs an election and no record,
  because the votes that follow obey the same rules as ever.
"""

from quorum_node.raft import inquiry
from quorum_node.raft.cluster_identity import is_foreign
from quorum_node.raft.election import refused_shorter_log, step_down
from quorum_node.raft.epoch_bound import within_step
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import NO_LEADER, VoteRequest, VoteResponse
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower, Prospective, Unattached
from quorum_node.raft.seen_recoveries import is_older_candidate, told_leader
from quorum_node.raft.static_quorum import refuse_candidate
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.identity import ReplicaKey


def handle_vote(replica: ReplicaState, request_id: int, request: VoteRequest) -> None:
    """Grant or refuse."""
    granted, error = _decide(replica, request)
    leader = told_leader(replica, request.candidate, request.recovered_epoch)
    replica.respond(request_id, VoteResponse(error, leader, granted))


def _decide(replica: ReplicaState, request: VoteRequest) -> tuple[bool, RaftError]:
    if is_foreign(replica, request.cluster_id, member=not request.static_voters):
        return False, RaftError.INVALID_CLUSTER_ID
    refusal = _wrong_voter(replica, request)
    if refusal is not None:
        return False, refusal
    if is_older_candidate(replica, request):
        return False, RaftError.INCONSISTENT_VOTER_SET
    if request.candidate_epoch < replica.epoch:
        return False, RaftError.FENCED_LEADER_EPOCH
    if not within_step(replica.epoch, request.candidate_epoch):
        inquiry.ask_voter(replica, request.candidate.id)
        return False, RaftError.UNKNOWN_LEADER_EPOCH
    addressed = request.voter == replica.key
    if not replica.is_voter and not addressed:
        return False, RaftError.INCONSISTENT_VOTER_SET
    eligible = _is_known(replica, request.candidate) or _trusts_strangers(replica)
    if not replica.is_voter and replica.has_live_leader():
        # It can't be needed as long as that leader has a majority, and it could not follow it with a forged epoch.
        eligible = False
    if request.pre_vote:
        return _would_grant(replica, request, eligible), RaftError.NONE
    if not eligible:
        if not replica.has_live_leader() and request.candidate_epoch > replica.epoch:
            # The draft's rule: it may be a voter by a record that this replica has not, or had not.
            become_unattached(replica, request.candidate_epoch, _soon_ms(replica))
        return False, RaftError.INCONSISTENT_VOTER_SET
    if request.candidate_epoch > replica.epoch:
        granted = _up_to_date(replica, request)
        delay_ms = None if granted else _remaining_ms(replica)
        become_unattached(replica, request.candidate_epoch, delay_ms, persist=False)
        if granted:
            replica.votes_for(request.candidate)
        replica.persist()
        return granted, RaftError.NONE
    return _grant_in_epoch(replica, request), RaftError.NONE


def _wrong_voter(replica: ReplicaState, request: VoteRequest) -> RaftError | None:
    """Asked under another key; or by id alone, which only a static quorum in formation may do."""
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
    replica.votes_for(request.candidate)
    become_unattached(replica, replica.epoch)
    replica.persist()
    return True


def _trusts_strangers(replica: ReplicaState) -> bool:
    """No leader is alive, and this replica has campaigned in vain or can't campaign at all."""
    if replica.has_live_leader():
        return False
    return replica.campaigns > 0 or not replica.may_campaign()


def _would_grant(replica: ReplicaState, request: VoteRequest, eligible: bool) -> bool:
    if replica.hears_leader() or not eligible:
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
    """What is left of the wait for the own campaign; None: it does not wait.

    A candidate that is refused must not put it off: one with a shorter log that asks again and again, as those do
    that know no pre-vote, could keep the only one from campaigning that can win.
    """
    role = replica.role
    if not isinstance(role, Unattached) or role.election_deadline_ms is None:
        return None
    return max(0.0, role.election_deadline_ms - replica.now_ms)


def _up_to_date(replica: ReplicaState, request: VoteRequest) -> bool:
    """KIP-595: the later last epoch wins; with equal epochs the longer log."""
    theirs = (request.last_epoch, request.last_epoch_end_offset)
    if theirs >= (replica.epochs.last_epoch, replica.log_end):
        return True
    refused_shorter_log(replica, request.candidate)
    return False


def _delay_own_campaign(replica: ReplicaState, request: VoteRequest) -> None:
    """Whoever got this pre-vote asks for votes in a moment: two campaigns would split them.

    Of two that ask each other, the one with the shorter log (then the smaller id) gives way.
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
