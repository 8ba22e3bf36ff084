"""What every response of a leader, or its absence, means to its follower.

Owns the state of the link to the leader. Must not know what was requested.
Source: KIP-595, "FetchResponse Handling". A closed connection to the leader is a hint that starts a
pre-vote. Safety never depends on it.
"""

from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.election import campaign_delay_ms, leader_answered
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import NO_LEADER, CurrentLeader
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Follower, Link, Prospective
from quorum_node.raft.transitions import become_unattached, believe_leader, observe_leader


def follower_of(replica: ReplicaState, correlation: int) -> Follower | None:
    """The follower that sent this request, also while it is in a pre-vote."""
    role = replica.role
    follower = role.fallback if isinstance(role, Prospective) else role
    if isinstance(follower, Follower) and follower.fetching == correlation:
        return follower
    return None


def asked_leader_id(replica: ReplicaState, sent: Outstanding) -> int:
    """The leader that got this request, if it is still followed there in that epoch, or NO_LEADER."""
    role = replica.role
    follower = role.fallback if isinstance(role, Prospective) else role
    if not isinstance(follower, Follower) or sent.epoch != replica.epoch:
        return NO_LEADER
    return follower.leader_id if sent.destination == follower.endpoint else NO_LEADER


def leader_is_alive(replica: ReplicaState, follower: Follower) -> None:
    """A response of this epoch's leader arrived."""
    follower.link = Link.OPEN
    if follower.hearsay:
        believe_leader(replica, follower)
    replica.cluster_is_confirmed = True
    follower.campaign_deadline_ms = None
    follower.failures = 0
    follower.fetch_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    follower.silence_deadline_ms = None
    follower.excused = False
    replica.last_leader_contact_ms = replica.now_ms
    leader_answered(replica)
    if replica.role is not follower:
        replica.set_role(follower)


def is_of_leader(replica: ReplicaState, follower: Follower, leader: CurrentLeader) -> bool:
    """Whether a response with this leader comes from the leader that is followed.

    Another leader of the same epoch may respond at an address that a false claim has named.
    """
    return leader.leader_epoch == replica.epoch and leader.leader_id == follower.leader_id


def refused(
    replica: ReplicaState, follower: Follower, error: RaftError, leader: CurrentLeader
) -> None:
    """A response without data: another replica is the leader, or the request has to be repeated."""
    at, named = follower.endpoint, leader.endpoint
    names_itself = named is not None and (named.host, named.port) == (at.host, at.port)
    # Only others have said who listens at this address: what responds there knows better.
    responder_id = leader.leader_id if follower.hearsay and names_itself else follower.leader_id
    if observe_leader(replica, leader, responder_id, error=error):
        return
    leading = replica.voters.latest.voters.newest(follower.leader_id)
    key = None if leading is None else leading.key
    if note_answer(replica, key, follower.endpoint, error):
        return
    if error is RaftError.NOT_QUORUM_LEADER:
        suspect(replica, follower)
    else:
        retry(replica, follower)


def no_answer(replica: ReplicaState, correlation: int, reason: FailureReason) -> bool:
    """A closed or refused connection suggests that the leader has failed.

    False if the replica is no longer the follower that sent the request.
    """
    follower = follower_of(replica, correlation)
    if follower is None:
        return False
    follower.fetching = None
    if reason is FailureReason.TIMEOUT:
        retry(replica, follower)
    else:
        suspect(replica, follower)
    return True


def suspect(replica: ReplicaState, follower: Follower) -> None:
    """The leader seems to have failed: start an election soon, unless it responds before."""
    searches = replica.ids_only and follower.link is Link.OPEN
    if searches or (not replica.is_voter and not replica.may_campaign()):
        # A voter whose removal is not committed may start an election: its log may be the only one
        # that is up to date. A replica that knows its voters by id alone first looks for a leader,
        # as the quorum may have formed. If the same one is named again, it requests votes: the
        # refusal says why no quorum can form.
        become_unattached(replica, replica.epoch)
        return
    if follower.link in (Link.OPEN, Link.SILENT):
        follower.link = Link.CLOSED
    if not replica.may_campaign():
        # Its vote may be needed. It waits for the next leader to announce itself, and ignores
        # responses that still name the old one.
        retry(replica, follower)
        return
    if follower.campaign_deadline_ms is None and replica.role is follower:
        delay_ms = campaign_delay_ms(replica, replica.campaigns)
        follower.campaign_deadline_ms = replica.now_ms + delay_ms
    retry(replica, follower)


def retry(replica: ReplicaState, follower: Follower) -> None:
    """Ask again after a growing delay."""
    follower.failures += 1
    delay_ms = replica.backoff_ms(follower.failures)
    follower.retry_deadline_ms = replica.now_ms + delay_ms
