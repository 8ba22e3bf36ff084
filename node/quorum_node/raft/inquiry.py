"""Verification of claims about leaders and epochs in unauthenticated requests.

Owns which address is asked, how often, and the one pending claim. Must not know why a request needs
verification (`begin_end_epoch.py`, `vote.py`, `fetch_serving.py`).
Source: rule of this project; KIP-595 trusts every sender. Any process may send a request. A
response comes from an address that this replica chose: one of the voters record, of its
configuration, or named by one of those. So a claim is verified by a Fetch to such an address. The
response has the usual effect (`transitions.observe_leader`): it names the leader, and an epoch of
any height.
A voter that moved states its new address in the request itself. It is accepted when no address of
the voters record responds any more. Only certificates can authenticate such a voter.
"""

from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.events import FailureReason
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, CurrentLeader, FetchRequest
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Resigned
from quorum_node.raft.search_targets import targets
from quorum_node.raft.transitions import become_follower
from quorum_node.raft.unfinished import Claim
from quorum_node.records.identity import Endpoint, ReplicaKey

_PAUSE_MS = 500.0
"""Shortest time between two questions to one address."""
_MAX_REMEMBERED = 256


def ask_voter(replica: ReplicaState, voter_id: int) -> None:
    """Ask the voters of that id in any known voter set, at all their known addresses."""
    known = {each.key: None for entry in replica.voters.entries for each in entry.voters}
    for key in known:
        if key.id == voter_id and key != replica.key:
            places = (replica.endpoint_of(key), *recorded_endpoints(replica, voter_id))
            for endpoint in dict.fromkeys(places):
                if endpoint is not None:
                    ask(replica, endpoint, key)


def ask_around(replica: ReplicaState, *, voters: bool = True) -> None:
    """Ask every target of a search; with `voters` False only addresses that belong to no known voter."""
    for key, endpoint in targets(replica):
        if voters or key is None:
            ask(replica, endpoint, key)


def knows_id(replica: ReplicaState, voter_id: int) -> bool:
    """Whether another replica of that id is a voter in any known voter set, committed or not."""
    return any(
        voter.key.id == voter_id and voter.key != replica.key
        for entry in replica.voters.entries
        for voter in entry.voters
    )


def recorded_endpoints(replica: ReplicaState, voter_id: int) -> list[Endpoint]:
    """Controller listeners of an id in the known voters records, or in the configuration."""
    found: list[Endpoint] = []
    for entry in replica.voters.entries:
        for voter in entry.voters:
            endpoint = voter.endpoint(CONTROLLER) if voter.key.id == voter_id else None
            if endpoint is not None and voter.key != replica.key and endpoint not in found:
                found.append(endpoint)
    return found


def listens_where_recorded(replica: ReplicaState, leader_id: int, endpoint: Endpoint) -> bool:
    """Whether the address of a voter of that id matches a voters record, or no record has an address."""
    recorded = recorded_endpoints(replica, leader_id)
    place = (endpoint.host, endpoint.port)
    return not recorded or any((each.host, each.port) == place for each in recorded)


def check_claim(replica: ReplicaState, leader: CurrentLeader) -> None:
    """Verify the claim of a known voter that it leads at a new address: does an old address still respond?"""
    if replica.claim is not None and replica.claim.questions:
        return
    questions = set()
    for endpoint in recorded_endpoints(replica, leader.leader_id):
        correlation = ask(replica, endpoint, None)
        if correlation is not None:
            questions.add(correlation)
    replica.claim = Claim(leader, questions) if questions else None


def answered(replica: ReplicaState, correlation: int) -> None:
    """An old address responds: its response counts instead of the claim."""
    if replica.claim is not None and correlation in replica.claim.questions:
        replica.claim = None


def not_answered(replica: ReplicaState, correlation: int, reason: FailureReason) -> None:
    """An address does not respond. If none of the recorded ones does, the claim is accepted."""
    claim = replica.claim
    if claim is None or correlation not in claim.questions:
        return
    claim.questions.discard(correlation)
    if reason is FailureReason.UNSUPPORTED:
        replica.claim = None
    elif not claim.questions:
        replica.claim = None
        _believe(replica, claim.leader)


def _believe(replica: ReplicaState, leader: CurrentLeader) -> None:
    if replica.has_live_leader() or isinstance(replica.role, Leader | Resigned):
        return
    if leader.endpoint is None or leader.leader_epoch < replica.epoch:
        return
    in_force = replica.bound_leader_id if leader.leader_epoch == replica.epoch else NO_LEADER
    if in_force in (NO_LEADER, leader.leader_id):
        become_follower(replica, leader.leader_epoch, leader.leader_id, leader.endpoint)


def ask(replica: ReplicaState, endpoint: Endpoint, peer: ReplicaKey | None) -> int | None:
    """Ask at an address with one Fetch. Returns its correlation, or None if the address was asked a moment ago."""
    asked, now_ms = replica.asked_ms, replica.now_ms
    if now_ms - asked.get(endpoint, -_PAUSE_MS) < _PAUSE_MS:
        return None
    if len(asked) >= _MAX_REMEMBERED:
        asked.clear()
    asked[endpoint] = now_ms
    request = FetchRequest(
        cluster_id=replica.reported_cluster_id,
        replica=replica.key,
        current_leader_epoch=replica.epoch,
        fetch_offset=replica.durable_end,
        last_fetched_epoch=replica.epochs.epoch_at(replica.durable_end - 1),
        max_wait_ms=0,
        max_bytes=1,
        high_watermark=replica.high_watermark,
        witness=replica.config.witness,
        recovered_epoch=replica.recovered_epoch,
    )
    return replica.send(endpoint, request, peer, timeout_ms=_PAUSE_MS)
