"""Elections: pre-vote, candidacy, counting votes, backoff.

Owns the sender's side of Vote. Must not know how votes are granted (`vote.py`).
Source: KIP-595, "Vote Response Handling" and "Gridlocked Elections"; KIP-650, "Pre-vote". A
candidate that can't win any more steps down at once (K595-09).

Voters whose software does not support pre-votes count as if they had granted one, as they grant
votes without one (K650-02). But they may still be in contact with the leader. So they count only
after the leader has not responded to the pre-vote either.
"""

from collections.abc import Iterable

from quorum_node.raft import inquiry
from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.epoch_bound import MAX_STEP
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
    """Start a pre-vote; a single voter becomes candidate at once."""
    if not replica.may_campaign():
        return
    if is_only_voter(replica):
        start_candidacy(replica)
        return
    become_prospective(replica)
    replica.discovery.restart(replica.now_ms + replica.config.retry_backoff_ms)
    _ask_everyone(replica)


def is_only_voter(replica: ReplicaState) -> bool:
    """Whether this replica is the only voter. (A set of one may also be a set without this replica.)"""
    return replica.voters.latest.voters.ordered_keys == (replica.key,)


def start_candidacy(replica: ReplicaState) -> None:
    """Begin a new epoch; the own vote may already be a majority."""
    candidate = become_candidate(replica)
    if has_won(replica, candidate.granted):
        _win(replica, candidate)
        return
    _ask_everyone(replica)


def handle_vote_response(
    replica: ReplicaState, sent: Outstanding, request: VoteRequest, response: VoteResponse
) -> None:
    """Count the vote if it belongs to the present election."""
    if note_answer(replica, sent.peer, sent.destination, response.error):
        return
    if observe_leader(replica, response.leader, sent.peer_id, error=response.error):
        return
    role = replica.role
    peer = sent.peer
    if not isinstance(role, Prospective | Candidate) or peer is None:
        return
    if request.pre_vote != isinstance(role, Prospective) or sent.epoch != replica.epoch:
        return
    role.retries.pop(peer, None)
    role.unreachable.discard(peer)
    if _bring_closer(replica, role, peer, request, response):
        return
    if request.pre_vote and response.error is RaftError.UNSUPPORTED_VERSION:
        _lacks_pre_vote(replica, role, peer)
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


def _bring_closer(
    replica: ReplicaState,
    role: Prospective | Candidate,
    peer: ReplicaKey,
    request: VoteRequest,
    response: VoteResponse,
) -> bool:
    """Ask a voter whose epoch is too far behind in an epoch that it can take, and so on until it can take this one.

    It may not know this replica, and so may never ask it for its epoch. True if it was asked.
    """
    told = response.leader.leader_epoch
    if not isinstance(role, Prospective) or told >= replica.epoch:
        return False
    if request.candidate_epoch < replica.epoch:
        may_go_on = told >= request.candidate_epoch  # it took that one
    else:
        may_go_on = response.error is RaftError.UNKNOWN_LEADER_EPOCH
    if not may_go_on:
        return False
    _ask(replica, role, peer, min(replica.epoch, told + MAX_STEP))
    return True


def handle_vote_failure(
    replica: ReplicaState, sent: Outstanding, request: VoteRequest, reason: FailureReason
) -> None:
    """No response: ask again a little later, as long as the election can be won."""
    role = replica.role
    if not isinstance(role, Prospective | Candidate) or sent.peer is None:
        return
    if request.pre_vote == isinstance(role, Prospective) and sent.epoch == replica.epoch:
        if request.pre_vote and reason is FailureReason.UNSUPPORTED:
            _lacks_pre_vote(replica, role, sent.peer)
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
    """Timer: ask voters again that did not respond; give up at the deadline."""
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
    """The latest voter set changed during an election, which only a truncation can cause: start over."""
    if isinstance(replica.role, Prospective | Candidate):
        step_down(replica, replica.role)


def leader_answered(replica: ReplicaState) -> None:
    """There is a leader, perhaps this replica: records about its silence are void."""
    replica.campaigns = 0
    replica.refused_shorter = None


def refused_shorter_log(replica: ReplicaState, candidate: ReplicaKey) -> None:
    """A candidate with a log that is less up to date asked for a vote.

    So a voter that has left elections to a newer key of its id starts them itself.
    """
    replica.refused_shorter = candidate
    role = replica.role
    if (
        isinstance(role, Unattached)
        and role.election_deadline_ms is None
        and replica.may_campaign()
    ):
        delay_ms = replica.config.election_timeout_ms * (1 + replica.jitter())
        role.election_deadline_ms = replica.now_ms + delay_ms


def campaign_delay_ms(replica: ReplicaState, campaigns: int) -> float:
    """Random delay in a window that doubles with every failed election, up to the election backoff."""
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
    """The voter may have had contact with the leader a little later than this replica.

    It is asked again while the leader stays silent.
    """
    doubted = _doubted(replica, role)
    if peer == doubted:
        role.rejected |= role.unasked - role.granted
    elif doubted is not None and doubted not in role.rejected | role.unreachable:
        role.asked_again += 1
        role.retries[peer] = replica.now_ms + campaign_delay_ms(replica, role.asked_again)


def _lacks_pre_vote(replica: ReplicaState, role: Prospective | Candidate, peer: ReplicaKey) -> None:
    """The voter does not support pre-votes, but may be in contact with the leader: that one is
    asked instead.
    """
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
    """The leader without contact for too long, if there was one."""
    if role.fallback is None:
        return None
    leader = replica.voters.latest.voters.newest(role.fallback.leader_id)
    return None if leader is None else leader.key


def _win(replica: ReplicaState, role: Prospective | Candidate) -> None:
    if isinstance(role, Prospective):
        start_candidacy(replica)
        return
    leader_answered(replica)
    leader: Leader = become_leader(replica, role.granted)
    assert leader is replica.role


def _step_down_if_hopeless(replica: ReplicaState, role: Prospective | Candidate) -> None:
    """Refusals are final. Voters that refuse connections count as refusals for now."""
    if not can_still_win(replica, role.rejected | role.unreachable):
        step_down(replica, role)


def _doubt_addresses(replica: ReplicaState, refusing: Iterable[ReplicaKey]) -> None:
    """What refuses may not be the voter: its address may have been announced by another process.

    So the address of the voters record is tried next, and vice versa.
    """
    for key in refusing:
        endpoint = replica.endpoint_of(key)
        if endpoint is not None:
            replica.gossip.address_failed(key, endpoint)


def step_down(replica: ReplicaState, role: Prospective | Candidate) -> None:
    """Return to the role before the election, and retry after a growing, random delay.

    A voter whose removal is not committed, as far as it knows, looks for the leader instead. A leader
    sends it no BeginQuorumEpoch any more, so it has to notice itself that it follows a false one.
    """
    replica.campaigns += 1
    delay_ms = campaign_delay_ms(replica, replica.campaigns)
    # The voters that are known here may all have been replaced by now. Other servers may have the
    # present ones.
    inquiry.ask_around(replica, voters=False)
    _doubt_addresses(replica, role.rejected)
    # A peer that holds a false address returns it; this voter then announces a later boot.
    replica.gossip.announce_again()
    if isinstance(role, Prospective) and role.fallback is not None and replica.is_voter:
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


def _ask(
    replica: ReplicaState, role: Prospective | Candidate, key: ReplicaKey, epoch: int | None = None
) -> None:
    """`epoch`: for a pre-vote, a lower one than the own."""
    endpoint = replica.endpoint_of(key)
    if endpoint is None:
        return
    request = VoteRequest(
        cluster_id=replica.reported_cluster_id,
        candidate=replica.key,
        candidate_epoch=replica.epoch if epoch is None else epoch,
        last_epoch=replica.epochs.last_epoch,
        last_epoch_end_offset=replica.log_end,
        voter=key,
        pre_vote=isinstance(role, Prospective),
        static_voters=asked_ids(replica),
        recovered_epoch=replica.recovered_epoch,
    )
    replica.send(endpoint, request, key)
