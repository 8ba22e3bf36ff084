"""A replica's own entry in the voters record: updates its endpoints, and joins the voters automatically.

Owns when a replica requests a change that concerns itself. Must not know how the leader decides.
Source: KIP-853, "UpdateVoter" (K853-07); KIP-1186 (controllers that join by themselves).

* A voter whose endpoints differ from those in the committed voters record sends UpdateVoter to the
leader. Until that is committed the others can't reach it, but it reaches them: it fetches, counts
and votes as before, so no majority is lost. A leader writes its own change itself.
* An observer with `auto_join` requests to become a voter once it has caught up. It does not if the
record has its id (the replacement of a lost disk is decided elsewhere) or a tombstone of its key.

After a refusal or a timeout the next attempt follows after the fetch timeout.
"""

from quorum_node.raft import membership
from quorum_node.raft.following import asked_leader_id
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.raft.transitions import observe_leader
from quorum_node.records.identity import Endpoint

NEVER_MS = float("inf")


def voters_changed(replica: ReplicaState) -> None:
    """The latest voter set, or its commit, changed: a new request may be necessary."""
    replica.voters_changes_seen = replica.voters_changes
    replica.asks_for_itself = _wants_update(replica) or _wants_to_join(replica)


def ask_if_due(replica: ReplicaState, follower: Follower) -> None:
    """Called after every event of a follower with a pending request."""
    if replica.own_request is not None or replica.now_ms < replica.own_request_after_ms:
        return
    if not replica.voters.latest_is_committed:
        return
    request: UpdateVoterRequest | AddVoterRequest
    timeout_ms = int(replica.config.request_timeout_ms)
    if replica.is_voter:
        request = UpdateVoterRequest(
            replica.reported_cluster_id,
            replica.key,
            replica.config.endpoints,
            timeout_ms,
            replica.epoch,
        )
    elif 0 <= replica.leader_high_watermark <= replica.durable_end:
        request = AddVoterRequest(
            replica.reported_cluster_id,
            replica.key,
            replica.config.endpoints,
            timeout_ms,
            ack_when_committed=False,
        )
    else:
        return
    replica.own_request = replica.send(follower.endpoint, request, None)


def answered(
    replica: ReplicaState,
    sent: Outstanding,
    correlation: int,
    response: VoterChangeResponse | None,
) -> None:
    """The leader's response, or None if there is none. The outcome is in the voters record."""
    if replica.own_request != correlation:
        return
    replica.own_request = None
    replica.own_request_after_ms = replica.now_ms + replica.config.fetch_timeout_ms
    if response is not None and response.leader.leader_id != NO_LEADER:
        asked_id = asked_leader_id(replica, sent)
        observe_leader(replica, response.leader, asked_id, error=response.error)


def deadline_ms(replica: ReplicaState) -> float:
    """When the next attempt is due."""
    if not replica.asks_for_itself or replica.own_request is not None:
        return NEVER_MS
    if not isinstance(replica.role, Follower) or not replica.voters.latest_is_committed:
        return NEVER_MS
    if replica.now_ms < replica.own_request_after_ms:
        return replica.own_request_after_ms
    return NEVER_MS  # the missing records come with a fetch


def update_as_leader(replica: ReplicaState, leader: Leader) -> None:
    """Change the leader's own endpoints, as soon as no other change is in progress."""
    if replica.is_voter and membership.may_change(replica, leader):
        membership.update_own_endpoints(replica, leader)


def _wants_update(replica: ReplicaState) -> bool:
    own = replica.voters.latest.voters.get(replica.key)
    if own is None or replica.voters.latest.offset < 0:
        return False
    return not _same(own.endpoints, replica.config.endpoints)


def _wants_to_join(replica: ReplicaState) -> bool:
    latest = replica.voters.latest
    return (
        replica.config.auto_join
        and latest.offset >= 0
        and latest.voters.newest(replica.key.id) is None
        and replica.key not in latest.record.tombstones
    )


def _same(recorded: tuple[Endpoint, ...], own: tuple[Endpoint, ...]) -> bool:
    """Whether two lists of endpoints are equal. Names are case-insensitive; the order is irrelevant."""

    def plain(endpoints: tuple[Endpoint, ...]) -> set[tuple[str, str, int]]:
        return {(e.name.upper(), e.host, e.port) for e in endpoints}

    return plain(recorded) == plain(own)
