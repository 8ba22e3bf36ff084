"""Questions about what a request claimed: who leads, in which epoch?

Owns whom to ask, how often, and the one claim that waits for an answer. Must not know why a request is not
believed by itself (`begin_end_epoch.py`, `vote.py`, `fetch_serving.py`).
Source: the project's rule; KIP-595 trusts every sender. Anybody may send a request. An answer comes from an
address that this replica chose: of the voters record, of its configuration, or named by one of those. So a
claim is put as a Fetch to such an address, and the answer teaches what any answer does
(`transitions.observe_leader`): the leader, and an epoch however far away.

A voter that moved tells its new address in the request itself. It is believed once nobody answers at the
address that the voters record has: then there is nobody whom it could be asked of. Certificates will tell
the voter from anybody who claims to be it.
"""

from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.events import FailureReason
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, CurrentLeader, FetchRequest
from quorum_node.raft.replica_state import Claim, ReplicaState
from quorum_node.raft.roles import Resigned
from quorum_node.raft.search_targets import targets
from quorum_node.raft.transitions import become_follower
from quorum_node.records.identity import Endpoint, ReplicaKey

_PAUSE_MS = 500.0
"""An address is asked at most this often, whatever comes in."""
_MAX_REMEMBERED = 256


def ask_voter(replica: ReplicaState, voter_id: int) -> None:
    """Ask the known voters of that id, wherever they may listen."""
    for key in replica.other_voters():
        if key.id == voter_id:
            places = (replica.endpoint_of(key), *recorded_endpoints(replica, voter_id))
            for endpoint in dict.fromkeys(places):  # in an order that no hash decides
                if endpoint is not None:
                    _ask(replica, endpoint, key)


def ask_around(replica: ReplicaState, *, voters: bool = True) -> None:
    """Ask everyone whom a search would ask; `voters` False: only addresses that are no voter's."""
    for key, endpoint in targets(replica):
        if voters or key is None:
            _ask(replica, endpoint, key)


def knows_id(replica: ReplicaState, voter_id: int) -> bool:
    """Whether another replica, of that id, is a voter in any set known here, committed or not."""
    return any(
        voter.key.id == voter_id and voter.key != replica.key
        for entry in replica.voters.entries
        for voter in entry.voters
    )


def recorded_endpoints(replica: ReplicaState, voter_id: int) -> list[Endpoint]:
    """Controller listeners that the known voters records (or the configuration) have for an id."""
    found: list[Endpoint] = []
    for entry in replica.voters.entries:
        for voter in entry.voters:
            endpoint = voter.endpoint(CONTROLLER) if voter.key.id == voter_id else None
            if endpoint is not None and voter.key != replica.key and endpoint not in found:
                found.append(endpoint)
    return found


def listens_where_recorded(replica: ReplicaState, leader_id: int, endpoint: Endpoint) -> bool:
    """Whether a voter of that id has this address by a voters record, or has none by any."""
    recorded = recorded_endpoints(replica, leader_id)
    place = (endpoint.host, endpoint.port)
    return not recorded or any((each.host, each.port) == place for each in recorded)


def check_claim(replica: ReplicaState, leader: CurrentLeader) -> None:
    """A known voter leads, it says, and listens elsewhere now: is anybody left where it was?"""
    if replica.claim is not None and replica.claim.questions:
        return
    questions = set()
    for endpoint in recorded_endpoints(replica, leader.leader_id):
        correlation = _ask(replica, endpoint, None)
        if correlation is not None:
            questions.add(correlation)
    replica.claim = Claim(leader, questions) if questions else None


def answered(replica: ReplicaState, correlation: int) -> None:
    """Somebody is there: what it says counts, not the claim."""
    if replica.claim is not None and correlation in replica.claim.questions:
        replica.claim = None


def not_answered(replica: ReplicaState, correlation: int, reason: FailureReason) -> None:
    """Nobody is there. If that is so at each recorded address the voter may well have moved."""
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
    in_force = replica.known_leader_id if leader.leader_epoch == replica.epoch else NO_LEADER
    if in_force in (NO_LEADER, leader.leader_id):
        become_follower(replica, leader.leader_epoch, leader.leader_id, leader.endpoint)


def _ask(replica: ReplicaState, endpoint: Endpoint, peer: ReplicaKey | None) -> int | None:
    """One Fetch; its correlation, or None where that address was asked a moment ago."""
    asked, now_ms = replica.asked_ms, replica.now_ms
    if now_ms - asked.get(endpoint, -_PAUSE_MS) < _PAUSE_MS:
        return None
    if len(asked) >= _MAX_REMEMBERED:
        asked.clear()
    asked[endpoint] = now_ms
    request = FetchRequest(
        cluster_id=replica.told_cluster_id,
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
