"""Campaigns: pre-vote, candidacy, counting votes, backing off.

Owns the sender's side of Vote. Must not know how votes are granted (`vote.py`).
Source: KIP-595, "Vote Response Handling" and "Gridlocked Elections"; KIP-650, "Pre-vote". A candidate
that can't win any more steps down at once (K595-09). A voter whose software knows no pre-vote can't be
asked for one; it counts as if it had granted it, as such a voter gives its vote without one (K650-02).
Nobody but the leader speaks for it then: such voters count when it has not answered the campaign either.
"""

from quorum_node.raft import inquiry
from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import VoteRequest, VoteResponse
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Candidate, Follower, Link, Prospective, Unattached
from quorum_node.raft.static_quorum import asked_ids, can_still_win, delayed_by, has_won
from quorum_node.raft.transitions import (
    become_candidate,
    become_leader,
    become_prospective,
    become_unattached,
    observe_leader,
)
from quorum_node.records.identity import ReplicaKey


def campaign(replica: ReplicaState) -> None:
    """Ask first whether it would be elected; a single voter needs nobody."""
    if not replica.may_campaign():
        return
    if is_only_voter(replica):
        start_candidacy(replica)
        return
    become_prospective(replica)
    replica.discovery.restart(replica.now_ms + replica.config.retry_backoff_ms)
    _ask_everyone(replica)


def is_only_voter(replica: ReplicaState) -> bool:
    """Nobody else has to be asked. (A set of one may also be a set without this replica.)"""
    return replica.voters.latest.voters.ordered_keys == (replica.key,)


def start_candidacy(replica: ReplicaState) -> None:
    """A new epoch; the own vote may already be a majority."""
    candidate = become_candidate(replica)
    if has_won(replica, candidate.granted):
        _win(replica, candidate)
        return
    _ask_everyone(replica)


def handle_vote_response(
    replica: ReplicaState, sent: Outstanding, request: VoteRequest, response: VoteResponse
) -> None:
    """Count it if it belongs to the campaign that is going on."""
    if note_answer(replica, sent.peer, sent.destination, response.error):
        return
    if observe_leader(replica, response.leader):
        return
    role = replica.role
    peer = sent.peer
    if not isinstance(role, Prospective | Candidate) or peer is None:
        return
    if request.pre_vote != isinstance(role, Prospective) or sent.epoch != replica.epoch:
        return
    role.retries.pop(peer, None)
    role.unreachable.discard(peer)
    if request.pre_vote and response.error is RaftError.UNSUPPORTED_VERSION:
        _knows_no_pre_vote(replica, role, peer)
        return
    if response.vote_granted and response.error is RaftError.NONE:
        _granted(replica, role, peer)
        return
    if peer not in role.granted:
        delayed_by(replica, peer, response.error)
        role.rejected.add(peer)
        if isinstance(role, Prospective):
            _refused_pre_vote(replica, role, peer)
        _step_down_if_hopeless(replica, role)


def handle_vote_failure(
    replica: ReplicaState, sent: Outstanding, request: VoteRequest, reason: FailureReason
) -> None:
    """No answer: ask again a little later, as long as the campaign can be won."""
    role = replica.role
    if not isinstance(role, Prospective | Candidate) or sent.peer is None:
        return
    if request.pre_vote == isinstance(role, Prospective) and sent.epoch == replica.epoch:
        if request.pre_vote and reason is FailureReason.UNSUPPORTED:
            _knows_no_pre_vote(replica, role, sent.peer)
            return
        delay_ms = replica.config.retry_backoff_ms * 2 * (1 + replica.jitter())
        role.retries[sent.peer] = replica.now_ms + delay_ms
        delayed_by(replica, sent.peer, None)
        if reason is not FailureReason.TIMEOUT:
            role.unreachable.add(sent.peer)
        if isinstance(role, Prospective) and sent.peer == _doubted(replica, role):
            _count_unasked(replica, role)
        if replica.role is role and reason is not FailureReason.TIMEOUT:
            _step_down_if_hopeless(replica, role)


def expire_campaign(replica: ReplicaState, role: Prospective | Candidate) -> None:
    """Timer: ask those again who did not answer; give up at the deadline."""
    if role.deadline_ms <= replica.now_ms:
        if isinstance(role, Prospective):
            _count_unasked(replica, role)
        if replica.role is role:
            step_down(replica, role)
        return
    due = [key for key, at_ms in role.retries.items() if at_ms <= replica.now_ms]
    for key in due:
        del role.retries[key]
        _ask(replica, role, key)


def voters_changed(replica: ReplicaState) -> None:
    """The latest voter set changed under a campaign: only possible through truncation; start over."""
    if isinstance(replica.role, Prospective | Candidate):
        step_down(replica, replica.role)


def leader_answered(replica: ReplicaState) -> None:
    """What was tried while it was silent is over."""
    replica.campaigns = 0
    replica.refused_shorter = None


def refused_shorter_log(replica: ReplicaState, candidate: ReplicaKey) -> None:
    """It asked for a vote and lacks what this replica has."""
    replica.refused_shorter = candidate


def campaign_delay_ms(replica: ReplicaState, campaigns: int) -> float:
    """Random, in a window that grows with every campaign in vain, up to the election backoff."""
    config = replica.config
    window_ms: float = min(
        config.election_backoff_max_ms, config.link_jitter_ms * float(2 ** min(campaigns, 10))
    )
    return window_ms * (0.2 + 0.8 * replica.jitter())


def _granted(replica: ReplicaState, role: Prospective | Candidate, peer: ReplicaKey) -> None:
    role.granted.add(peer)
    role.rejected.discard(peer)
    if has_won(replica, role.granted):
        _win(replica, role)


def _refused_pre_vote(replica: ReplicaState, role: Prospective, peer: ReplicaKey) -> None:
    """Another voter may have heard the leader a little later than this replica; it is asked again while that is silent."""
    doubted = _doubted(replica, role)
    if peer == doubted:
        role.rejected |= role.unasked - role.granted
    elif doubted is not None and doubted not in role.rejected | role.unreachable:
        role.asked_again += 1
        role.retries[peer] = replica.now_ms + campaign_delay_ms(replica, role.asked_again)


def _knows_no_pre_vote(
    replica: ReplicaState, role: Prospective | Candidate, peer: ReplicaKey
) -> None:
    """It can't be asked: it may well hear the leader, which can be asked."""
    doubted = _doubted(replica, role) if isinstance(role, Prospective) else None
    if doubted is None or doubted == peer or doubted in role.unreachable:
        _granted(replica, role, peer)
    elif isinstance(role, Prospective) and doubted not in role.rejected:
        role.unasked.add(peer)
    else:
        role.rejected.add(peer)
        _step_down_if_hopeless(replica, role)


def _count_unasked(replica: ReplicaState, role: Prospective) -> None:
    for peer in sorted(role.unasked - role.granted, key=lambda key: (key.id, str(key.uuid))):
        if replica.role is role:
            _granted(replica, role, peer)


def _doubted(replica: ReplicaState, role: Prospective) -> ReplicaKey | None:
    """The leader that this replica has not heard for too long, if there was one."""
    if role.fallback is None:
        return None
    leader = replica.voters.latest.voters.newest(role.fallback.leader_id)
    return None if leader is None else leader.key


def _win(replica: ReplicaState, role: Prospective | Candidate) -> None:
    if isinstance(role, Prospective):
        start_candidacy(replica)
        return
    replica.campaigns = 0
    leader: Leader = become_leader(replica, role.granted)
    assert leader is replica.role


def _step_down_if_hopeless(replica: ReplicaState, role: Prospective | Candidate) -> None:
    """Rejections are final; whoever refuses connections won't help either, for now."""
    if not can_still_win(replica, role.rejected | role.unreachable):
        step_down(replica, role)


def step_down(replica: ReplicaState, role: Prospective | Candidate) -> None:
    """Back to where the campaign began, to try again after a growing, random delay."""
    replica.campaigns += 1
    delay_ms = campaign_delay_ms(replica, replica.campaigns)
    # Its voters may all be others by now: whoever is no voter that it knows may know them.
    inquiry.ask_around(replica, voters=False)
    if isinstance(role, Prospective) and role.fallback is not None:
        follower: Follower = role.fallback
        if follower.link is Link.OPEN:
            follower.link = Link.TIMED_OUT
        follower.campaign_deadline_ms = replica.now_ms + delay_ms
        if follower.fetching is None and follower.retry_deadline_ms is None:
            follower.retry_deadline_ms = replica.now_ms
        replica.set_role(follower)
        return
    become_unattached(replica, replica.epoch, delay_ms)
    assert isinstance(replica.role, Unattached)


def _ask_everyone(replica: ReplicaState) -> None:
    role = replica.role
    assert isinstance(role, Prospective | Candidate)
    for key in replica.other_voters():
        _ask(replica, role, key)


def _ask(replica: ReplicaState, role: Prospective | Candidate, key: ReplicaKey) -> None:
    endpoint = replica.endpoint_of(key)
    if endpoint is None:
        return
    request = VoteRequest(
        cluster_id=replica.told_cluster_id,
        candidate=replica.key,
        candidate_epoch=replica.epoch,
        last_epoch=replica.epochs.last_epoch,
        last_epoch_end_offset=replica.log_end,
        voter=key,
        pre_vote=isinstance(role, Prospective),
        static_voters=asked_ids(replica),
        recovered_epoch=replica.recovered_epoch,
    )
    replica.send(endpoint, request, key)
