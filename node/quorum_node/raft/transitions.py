"""Role changes of a replica: cleanup, persistence, and start of the new role.

Owns the operations behind the table in `roles.py`. Must not know requests (the RPC modules decide
when).
Source: KIP-595, "State Machine". A new epoch, a vote and a known leader are durable before any
output that depends on them.
"""

from quorum_node.raft import reads
from quorum_node.raft.epoch_bound import learned
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import (
    NO_LEADER,
    CurrentLeader,
    FetchResponse,
    ResignResponse,
    VoterChangeResponse,
)
from quorum_node.raft.outputs import ProposalFailed
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Candidate, Follower, Link, Prospective, Resigned, Unattached
from quorum_node.raft.seen_recoveries import is_of_older_quorum
from quorum_node.raft.static_quorum import forget_senders, write_voters_if_known
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord
from quorum_node.records.dialable import why_undialable
from quorum_node.records.identity import Endpoint, ReplicaKey


def become_unattached(
    replica: ReplicaState,
    epoch: int,
    election_delay_ms: float | None = None,
    *,
    persist: bool = True,
) -> None:
    """No leader is known in `epoch` (>= the current one). `election_delay_ms` None: a random one."""
    named_in_vain = replica.follows_hearsay() and epoch == replica.epoch
    _leave_role(replica, CurrentLeader(NO_LEADER, epoch))
    newer = enter_epoch(replica, epoch)
    if not replica.is_voter:
        # It may have been a false leader. Only for a voter the real one begins a new epoch. Safe also
        # while its removal is pending: it still votes for one candidate of an epoch at most.
        replica.doubt_epoch_leader()
    deadline = None
    if replica.may_campaign():
        if election_delay_ms is None:
            election_delay_ms = replica.config.election_timeout_ms * (1 + replica.jitter())
        deadline = replica.now_ms + election_delay_ms
    if named_in_vain:
        # The peer may name it again. Without a growing delay this would repeat as fast as the network
        # allows, for as long as the quorum has no other leader.
        replica.discovery.resume()
    else:
        replica.discovery.restart(replica.now_ms)
    replica.set_role(Unattached(deadline))
    if newer and persist:
        replica.persist()


def become_follower(
    replica: ReplicaState, epoch: int, leader_id: int, endpoint: Endpoint, *, hearsay: bool = False
) -> Follower:
    """Follow the leader of `epoch`. The durable state then excludes any other leader in this epoch.

    `hearsay`: another replica named it. Then it excludes no other leader before it has answered: the
    claim may be false, and the real leader could not be followed until the next epoch.

    That state is the leader's id, or the own vote for it, which is on the disk already. So a
    replica that votes for the winner writes its state once, which makes a hand-over shorter by an
    fsync. Its first fetch that acknowledges records of the epoch has the LeaderChange durable, and
    `save_leader` writes the id when that record is committed.
    """
    _leave_role(replica, CurrentLeader(leader_id, epoch, endpoint))
    newer = enter_epoch(replica, epoch)
    followed_before = leader_id in (replica.remembered_leader_id, replica.last_hearsay_leader_id)
    given_up = not newer and replica.started and followed_before
    follower = Follower(leader_id, endpoint, replica.now_ms + replica.config.fetch_timeout_ms)
    if given_up:
        # A peer still names the leader that did not respond: it counts as alive once it responds.
        follower.link = Link.CLOSED
    follower.hearsay = hearsay
    replica.set_role(follower)
    if not hearsay:
        _bind_to(replica, leader_id)
        return follower
    replica.set_hearsay_leader(leader_id)
    if newer:
        replica.persist()
    return follower


def believe_leader(replica: ReplicaState, follower: Follower) -> None:
    """The leader that others had named has answered: now it excludes any other one in this epoch."""
    follower.hearsay = False
    _bind_to(replica, follower.leader_id)


def _bind_to(replica: ReplicaState, leader_id: int) -> None:
    """From now on, also after a restart, this leader excludes any other one in the present epoch."""
    replica.set_epoch_leader(leader_id)
    if replica.voted is not None and replica.voted.id == leader_id:
        replica.mark_leader_unsaved()
    elif replica.saved_leader != (replica.epoch, leader_id):
        replica.persist()


def become_candidate(replica: ReplicaState) -> Candidate:
    """Begin a new epoch with the own vote, durable before any request is sent."""
    _leave_role(replica, CurrentLeader(NO_LEADER, replica.epoch + 1))
    enter_epoch(replica, replica.epoch + 1)
    replica.set_vote(replica.key)
    timeout_ms = replica.config.election_timeout_ms * (1 + replica.jitter())
    candidate = Candidate(replica.now_ms + timeout_ms, {replica.key})
    replica.set_role(candidate)
    replica.persist()
    return candidate


def become_prospective(replica: ReplicaState) -> Prospective:
    """Start a pre-vote in the present epoch: nothing to persist."""
    role = replica.role
    assert isinstance(role, Unattached | Follower)
    fallback = role if isinstance(role, Follower) else None
    timeout_ms = replica.config.election_timeout_ms * (1 + replica.jitter())
    prospective = Prospective(replica.now_ms + timeout_ms, fallback, {replica.key})
    replica.set_role(prospective)
    return prospective


def become_leader(replica: ReplicaState, granted: set[ReplicaKey]) -> Leader:
    """Write the first record of the epoch. The very first leader adds the voters in the same batch.

    (The first leader of a static quorum has to collect their UUIDs before it writes anything.)
    One batch, so that no crash leaves a log that has an epoch but no voters (KIP-595,
    "Bootstrapping Procedure"; K595-21). The own vote for this epoch is durable since the start of
    the election: there is nothing to persist.
    """
    leader = Leader(
        epoch_start_offset=replica.log_end,
        check_quorum_deadline_ms=replica.now_ms + replica.config.fetch_timeout_ms,
        elected_ms=replica.now_ms,
    )
    voters = replica.voters.latest
    replica.set_epoch_leader(replica.key.id)
    replica.mark_leader_unsaved()
    replica.set_role(leader)
    leader.unendorsed = replica.other_counted_voters()
    if leader.unendorsed:
        leader.begin_deadline_ms = replica.now_ms
    if replica.ids_only:
        write_voters_if_known(replica, leader)
        return leader
    change = LeaderChange(
        replica.key.id,
        voters.voters.ordered_keys,
        tuple(key for key in voters.voters.ordered_keys if key in granted),
    )
    if voters.offset < 0:
        first = VotersRecord(
            voters.voters.voters, replica.cluster_id, replica.config.initial_voters
        )
        append_control(replica, (change, KRaftVersion(1), first))
    else:
        append_control(replica, (change,))
    return leader


def become_resigned(replica: ReplicaState) -> None:
    """Give up the leadership of this epoch for good."""
    _leave_role(replica, CurrentLeader(NO_LEADER, replica.epoch))
    timeout_ms = replica.config.election_timeout_ms * (1 + replica.jitter())
    replica.discovery.restart(replica.now_ms + replica.config.retry_backoff_ms)
    replica.set_role(Resigned(replica.now_ms + timeout_ms))


def enter_epoch(replica: ReplicaState, epoch: int) -> bool:
    """Enter a newer epoch, without vote and leader. True if it was newer."""
    assert epoch >= replica.epoch, f"epoch {epoch} after {replica.epoch}"
    if epoch == replica.epoch:
        return False
    replica.epoch_begins(epoch)
    return True


def observe_leader(
    replica: ReplicaState,
    leader: CurrentLeader,
    responder_id: int = NO_LEADER,
    *,
    error: RaftError,
) -> bool:
    """Process the leader and epoch in any response; True if the role changed.

    `responder_id`: id of the voter that was asked, if it was one. `error`: of the response.
    (KIP-595: "we piggyback current leader and epoch information on all responses".)
    """
    if error is RaftError.INVALID_CLUSTER_ID and replica.reported_cluster_id is not None:
        # Leader and epoch are of another cluster, whose node has the address of a voter now.
        return False
    if leader.leader_epoch < replica.epoch or is_of_older_quorum(replica, leader):
        return False
    leader_id, endpoint = known_leader(replica, leader)
    hearsay = responder_id != leader_id
    if leader.leader_epoch > replica.epoch:
        epoch = learned(replica.epoch, leader.leader_epoch)
        if epoch == replica.epoch or (endpoint is None and _stays_out(replica, responder_id)):
            return False
        if endpoint is not None and epoch == leader.leader_epoch:
            become_follower(replica, epoch, leader_id, endpoint, hearsay=hearsay)
        else:
            become_unattached(replica, epoch)
        return True
    if endpoint is not None and replica.leader_id == leader_id:
        _look_elsewhere(replica, endpoint)
        return False
    if endpoint is None or not _may_follow(replica, leader_id, responder_id):
        return False
    become_follower(replica, leader.leader_epoch, leader_id, endpoint, hearsay=hearsay)
    return True


def _may_follow(replica: ReplicaState, leader_id: int, responder_id: int) -> bool:
    """Whether it follows another leader of the present epoch on the word of this voter (NO_LEADER: of another replica).

    An epoch has one leader, also after a follower gave it up. But if the presumed leader itself names
    another one, a request in its name was forged. Otherwise this voter could not follow the real
    leader until the next epoch.
    """
    if replica.bound_leader_id not in (NO_LEADER, leader_id):
        return responder_id == replica.bound_leader_id
    if replica.leader_id == NO_LEADER:
        return True
    return replica.follows_hearsay() and responder_id == leader_id


def _stays_out(replica: ReplicaState, responder_id: int) -> bool:
    """Whether it enters no newer epoch without a leader on the word of this voter (NO_LEADER: of another replica).

    An observer needs a leader. An epoch without one may come from a removed voter; after entering it
    the observer could not follow the real leader any more. But it may be a voter by a record that
    has not arrived here: then a voter known here asks for its vote, which it refuses in an epoch too
    far ahead until the voter has answered that this is its epoch.
    """
    if replica.may_have_to_vote():
        return False
    return replica.has_live_leader() or responder_id not in replica.distant_candidates


def _look_elsewhere(replica: ReplicaState, endpoint: Endpoint) -> None:
    """The leader that is followed does not respond at its address: use the reported new one.

    This happens after a replacement under the same id. A replica that was paused meanwhile has the
    old address from its voters record or from a peer.
    """
    role = replica.role
    follower = role.fallback if isinstance(role, Prospective) else role
    if isinstance(follower, Follower) and not follower.is_live(replica.now_ms):
        if endpoint != follower.endpoint:
            # A fetch in flight was sent to the other address: its response does not show that this
            # leader knows an observer's address.
            follower.introducing = follower.introduced = False
        follower.endpoint = endpoint


def known_leader(replica: ReplicaState, leader: CurrentLeader) -> tuple[int, Endpoint | None]:
    """Leader id and its address. No address if it is unknown, or if it is this replica itself.

    A leader with this replica's own id is another replica only while the id has two keys (the
    newest key).
    """
    if leader.leader_id == NO_LEADER:
        return NO_LEADER, None
    newest = replica.voters.latest.voters.newest(leader.leader_id)
    if leader.leader_id == replica.key.id and (newest is None or newest.key == replica.key):
        told = leader.endpoint
        if told is None or told == replica.controller_endpoint or _is_nowhere(told):
            return leader.leader_id, None
        return leader.leader_id, told
    endpoint = leader.endpoint
    if endpoint is not None and _is_nowhere(endpoint):
        endpoint = None
    if endpoint is None and newest is not None:
        endpoint = replica.endpoint_of(newest.key)
    return leader.leader_id, endpoint


def _is_nowhere(endpoint: Endpoint) -> bool:
    return why_undialable(endpoint.host, endpoint.port) is not None


def leave_leadership(replica: ReplicaState, next_leader: CurrentLeader) -> None:
    """Answer all requests that wait for this leader."""
    leader = replica.role
    assert isinstance(leader, Leader)
    for parked in leader.parked.values():
        replica.respond(parked.request_id, FetchResponse(RaftError.NOT_QUORUM_LEADER, next_leader))
    leader.parked = {}
    for proposal in leader.proposals:
        replica.out.append(ProposalFailed(proposal.proposal_id, RaftError.LEADERSHIP_LOST))
    leader.proposals.clear()
    reads.fail_reads(replica, leader, RaftError.NOT_QUORUM_LEADER, next_leader)
    reads.keep_state_as_of(replica)
    change = leader.change
    if change is not None and change.request_id is not None:
        lost = change.position is not None
        error = RaftError.LEADERSHIP_LOST if lost else RaftError.NOT_QUORUM_LEADER
        message = "the outcome is unknown" if lost else "nothing was changed"
        replica.respond(change.request_id, VoterChangeResponse(error, next_leader, message))
    leader.change = None
    _answer_alterations(replica, leader, next_leader)
    handover = leader.handover
    if handover is not None and handover.request_id is not None:
        replica.respond(
            handover.request_id, ResignResponse(RaftError.NONE, next_leader, "resigned")
        )


def _answer_alterations(replica: ReplicaState, leader: Leader, next_leader: CurrentLeader) -> None:
    for waiting in leader.alterations:
        if waiting.request_id is None:
            continue
        position = waiting.position
        error, message = RaftError.NOT_QUORUM_LEADER, "nothing was changed"
        if position is not None:
            error, message = RaftError.LEADERSHIP_LOST, "the outcome is unknown"
            if position.offset < replica.high_watermark:
                error, message = RaftError.NONE, ""
        answer = VoterChangeResponse(error, next_leader, message, position)
        replica.respond(waiting.request_id, answer)
    leader.alterations.clear()


def _leave_role(replica: ReplicaState, next_leader: CurrentLeader) -> None:
    if isinstance(replica.role, Leader):
        leave_leadership(replica, next_leader)
        forget_senders(replica)
