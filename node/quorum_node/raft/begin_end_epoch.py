"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces the start or the end of its leadership.

Owns both sides of Begin and the receiving side of End (`handover.py` sends it).
Source: KIP-595, "BeginQuorumEpoch" (K595-11) and "EndQuorumEpoch" (K595-12).
"""

from dataclasses import replace

from quorum_node.raft import inquiry, membership
from quorum_node.raft.cluster_identity import is_foreign
from quorum_node.raft.election import campaign, start_candidacy
from quorum_node.raft.epoch_bound import MAX_EPOCH, within_step
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from quorum_node.raft.outputs import OlderQuorum
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Follower, Resigned, Unattached
from quorum_node.raft.seen_recoveries import lacks_recovery, leader_for_sender
from quorum_node.raft.static_quorum import is_addressed
from quorum_node.raft.transitions import (
    become_follower,
    become_unattached,
    known_leader,
    observe_leader,
)
from quorum_node.records.identity import Endpoint, ReplicaKey

_TIMEOUTS_BEFORE_NEXT_EPOCH = 3
"""Fetch timeouts after which a leader begins a new epoch for a voter that follows a false leader."""

_NOT_THE_VOTER = (RaftError.INVALID_VOTER_KEY, RaftError.INVALID_CLUSTER_ID)
"""What answers so is another replica: the address of the voter is outdated, or another process has announced it."""


def send_begin(replica: ReplicaState, leader: Leader) -> None:
    """Send to every voter that has neither responded nor fetched in this epoch; repeat after a backoff.

    Also to a replica that is being added and does not fetch.
    """
    asked = {
        sent.peer
        for sent in replica.outstanding.values()
        if isinstance(sent.request, BeginQuorumEpochRequest) and sent.epoch == replica.epoch
    }
    for key in leader.unendorsed - asked:
        new_voter = membership.endpoint_of_new_voter(replica, leader, key)
        endpoint = new_voter or replica.endpoint_of(key)
        if endpoint is not None:
            request = BeginQuorumEpochRequest(
                replica.reported_cluster_id,
                replica.key.id,
                replica.epoch,
                key,
                replica.controller_endpoint,
                replica.recovered_epoch,
            )
            replica.send(endpoint, request, key)
        elif key not in replica.voters.counted():
            leader.unendorsed.discard(key)  # it is removed, or its add was given up
    leader.begin_failures += 1
    leader.begin_deadline_ms = replica.now_ms + replica.backoff_ms(leader.begin_failures)


def handle_begin_response(
    replica: ReplicaState, sent: Outstanding, response: BeginQuorumEpochResponse
) -> None:
    """The response: the voter accepts the leader, or reports a newer epoch."""
    if sent.peer is not None and response.error in _NOT_THE_VOTER:
        replica.gossip.address_failed(sent.peer, sent.destination)
    if observe_leader(replica, response.leader, sent.peer_id, error=response.error):
        return
    leader = replica.role
    if not isinstance(leader, Leader) or sent.epoch != replica.epoch or sent.peer is None:
        return
    if response.error is RaftError.NONE:
        leader.endorsed_by(sent.peer)
    elif _is_bound_to_another(replica, response):
        _help_misled_voter(replica, leader, sent.peer)


def _is_bound_to_another(replica: ReplicaState, response: BeginQuorumEpochResponse) -> bool:
    """Whether the voter has heard from another leader of this epoch, which can only be a false one."""
    told = response.leader
    return (
        response.error is RaftError.INVALID_QUORUM_STATE
        and told.leader_epoch == replica.epoch
        and told.leader_id not in (NO_LEADER, replica.key.id)
    )


def _help_misled_voter(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> None:
    """Begin the next epoch, as the voter can follow no leader of this one if the false leader is gone.

    But first it gets the time to hear from the supposed leader itself that it does not lead.
    """
    since_ms = leader.misled_since_ms.setdefault(key, replica.now_ms)
    patience_ms = replica.config.fetch_timeout_ms * _TIMEOUTS_BEFORE_NEXT_EPOCH
    if replica.now_ms - since_ms > patience_ms and replica.epoch + 1 < MAX_EPOCH:
        become_unattached(replica, replica.epoch + 1, 0.0)


def handle_begin(replica: ReplicaState, request_id: int, request: BeginQuorumEpochRequest) -> None:
    """Follow the leader of that epoch, if the request alone is sufficient evidence."""
    error = _begin_error(replica, request)
    if error is RaftError.NONE:
        claimed = CurrentLeader(request.leader_id, request.leader_epoch, request.leader_endpoint)
        leader_id, endpoint = known_leader(replica, claimed)
        if endpoint is None:
            error = RaftError.INVALID_QUORUM_STATE
        elif request.leader_epoch == replica.epoch and _follows(replica, leader_id):
            pass
        elif _is_believed(replica, claimed, endpoint):
            become_follower(replica, request.leader_epoch, leader_id, endpoint)
        else:
            error = RaftError.UNKNOWN_LEADER_EPOCH
    told = leader_for_sender(replica, None, request.recovered_epoch)
    if error is RaftError.INVALID_QUORUM_STATE and told == CurrentLeader(NO_LEADER, replica.epoch):
        # The reason for the refusal, also if that leader does not respond any more.
        told = replace(told, leader_id=replica.bound_leader_id)
    replica.respond(request_id, BeginQuorumEpochResponse(error, told))


def _follows(replica: ReplicaState, leader_id: int) -> bool:
    """Whether it follows this leader, or one that excludes it."""
    role = replica.role
    return isinstance(role, Follower) and (role.leader_id == leader_id or not role.hearsay)


def _is_believed(replica: ReplicaState, claimed: CurrentLeader, endpoint: Endpoint) -> bool:
    """Whether a BeginQuorumEpoch is followed at once. Otherwise the leader is verified first
    (`inquiry.py`).

    The request is not authenticated. So its epoch must not be too far ahead, and its sender has to
    be a voter whose address matches a voters record. A replica that has a live leader verifies the
    claim before it leaves that leader. An observer always verifies it: in an epoch that was made up
    it could follow no leader, and unlike for a voter, no leader would join its epoch.
    """
    if not within_step(replica.epoch, claimed.leader_epoch):
        inquiry.ask_voter(replica, claimed.leader_id)
        return False
    if not inquiry.knows_id(replica, claimed.leader_id):
        if not replica.has_live_leader():
            inquiry.ask_around(replica)
        return False
    if replica.has_live_leader() or not replica.is_voter:
        inquiry.ask_voter(replica, claimed.leader_id)
        return False
    if not inquiry.listens_where_recorded(replica, claimed.leader_id, endpoint):
        inquiry.check_claim(replica, replace(claimed, endpoint=endpoint))
        return False
    return True


def handle_end(replica: ReplicaState, request_id: int, request: EndQuorumEpochRequest) -> None:
    """The leader (or a candidate, leader -1) gives up: start an election in the order of its successors.

    An empty list gives no order and excludes nobody: the next election follows an ordinary timeout.
    A stock leader sends one after a restart, and sends it again until every voter accepts it.
    """
    error = _end_error(replica, request)
    if error is not RaftError.NONE:
        replica.respond(request_id, EndQuorumEpochResponse(error, replica.current_leader()))
        return
    rank = _rank(replica.key, request.preferred_successors)
    if rank is None and request.preferred_successors:
        error = RaftError.INCONSISTENT_VOTER_SET
    by_leader = request.leader_id != NO_LEADER
    if by_leader:
        delay_ms = None if rank is None else _delay_ms(replica, rank)
        become_unattached(replica, replica.epoch, delay_ms)
    replica.respond(request_id, EndQuorumEpochResponse(error, replica.current_leader()))
    if not by_leader:
        _campaign_sooner(replica, rank)
    elif rank == 0 and replica.may_campaign():
        # The leader itself announced its resignation, so nothing has to be verified.
        start_candidacy(replica)


def _campaign_sooner(replica: ReplicaState, rank: int | None) -> None:
    """A candidate gave up. There may still be a leader, so a pre-vote comes first."""
    role = replica.role
    if rank is None or not isinstance(role, Unattached) or role.election_deadline_ms is None:
        return
    due_ms = replica.now_ms + _delay_ms(replica, rank)
    role.election_deadline_ms = min(role.election_deadline_ms, due_ms)
    if rank == 0:
        role.election_deadline_ms = None
        campaign(replica)


def _begin_error(replica: ReplicaState, request: BeginQuorumEpochRequest) -> RaftError:
    if is_foreign(replica, request.cluster_id, member=True):
        return RaftError.INVALID_CLUSTER_ID
    if not is_addressed(replica, request.voter):
        return RaftError.INVALID_VOTER_KEY
    if lacks_recovery(replica, request.recovered_epoch):
        leader = CurrentLeader(request.leader_id, request.leader_epoch, request.leader_endpoint)
        replica.out.append(OlderQuorum(leader, replica.recovered_epoch))
        return RaftError.UNKNOWN_LEADER_EPOCH
    if request.leader_epoch < replica.epoch:
        return RaftError.FENCED_LEADER_EPOCH
    if request.leader_id < 0:
        return RaftError.INVALID_QUORUM_STATE
    if request.leader_epoch == replica.epoch:
        if isinstance(replica.role, Leader | Resigned):
            return RaftError.INVALID_QUORUM_STATE
        if replica.bound_leader_id not in (NO_LEADER, request.leader_id):
            return RaftError.INVALID_QUORUM_STATE
    return RaftError.NONE


def _end_error(replica: ReplicaState, request: EndQuorumEpochRequest) -> RaftError:
    """KIP-595: refused if "the leader id is not known for this epoch". -1 is sent by a candidate."""
    if is_foreign(replica, request.cluster_id, member=True):
        return RaftError.INVALID_CLUSTER_ID
    if request.leader_epoch < replica.epoch:
        return RaftError.FENCED_LEADER_EPOCH
    if request.leader_epoch > replica.epoch:
        # The leader of that epoch is not known here. (A stock leader would fail with
        # INVALID_QUORUM_STATE.)
        if not replica.has_live_leader():
            inquiry.ask_voter(replica, request.leader_id)
        return RaftError.UNKNOWN_LEADER_EPOCH
    known_id = replica.known_leader_id
    if request.leader_id != known_id and known_id == NO_LEADER:
        # INVALID_QUORUM_STATE would end the process of a stock leader, which repeats the request
        # after its restart: meanwhile this replica may follow it, or not.
        return RaftError.UNKNOWN_LEADER_EPOCH
    if isinstance(replica.role, Leader) or request.leader_id != known_id:
        return RaftError.INVALID_QUORUM_STATE
    return RaftError.NONE


def _rank(key: ReplicaKey, successors: tuple[ReplicaKey, ...]) -> int | None:
    for rank, successor in enumerate(successors):
        if successor == key or (successor.uuid is None and successor.id == key.id):
            return rank
    return None


def _delay_ms(replica: ReplicaState, rank: int) -> float:
    """KIP-595: MIN(retryBackOffMaxMs, retryBackoffMs * 2^(N - 1)) for successor N > 0."""
    if rank == 0:
        return 0.0
    config = replica.config
    return min(config.retry_backoff_max_ms, config.retry_backoff_ms * float(2 ** min(rank - 1, 16)))
