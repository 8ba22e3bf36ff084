"""Looks for the leader: sends Fetch to the known servers, round robin, until a response names it.

Owns the order and the pace. Must not know what is done once the leader is known.
Source: KIP-595, "Quorum Bootstrapping"; as in shipped Kafka, every Fetch response names the leader.
DiscoverBrokers is sent as well, as peers may have addresses that this replica does not have
(K595-17). A zombie leader finds the current quorum this way (K595-16).
"""

from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.discover_brokers import ask_too
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchRequest, FetchResponse
from quorum_node.raft.outputs import OlderQuorum
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Candidate, Follower, Prospective, Unattached
from quorum_node.raft.search_targets import targets
from quorum_node.raft.seen_recoveries import is_of_older_quorum
from quorum_node.raft.transitions import observe_leader

_HAS_SOMEONE = (Leader, Follower, Candidate)


def is_searching(replica: ReplicaState) -> bool:
    """Whether the role has no leader to fetch from, unless the replica is about to stop."""
    role = replica.role
    if replica.stopping or isinstance(role, _HAS_SOMEONE):
        return False
    return not (isinstance(role, Prospective) and role.fallback is not None)


def search(replica: ReplicaState) -> None:
    """Ask the next endpoint, if it is time and no request is in flight."""
    discovery = replica.discovery
    if discovery.outstanding is not None or replica.now_ms < discovery.deadline_ms:
        return
    found = targets(replica)
    if not found:
        discovery.deadline_ms = replica.now_ms + replica.config.retry_backoff_max_ms
        return
    peer, endpoint = found[discovery.next_index % len(found)]
    discovery.next_index += 1
    request = FetchRequest(
        cluster_id=replica.reported_cluster_id,
        replica=replica.key,
        current_leader_epoch=replica.epoch,
        fetch_offset=replica.durable_end,
        last_fetched_epoch=replica.epochs.last_epoch,
        max_wait_ms=0,
        max_bytes=replica.config.fetch_max_bytes,
        high_watermark=replica.high_watermark,
        witness=replica.config.witness,
        recovered_epoch=replica.recovered_epoch,
    )
    if replica.durable_end != replica.log_end:
        # Records that are not durable must not be acknowledged. The search can wait for the flush.
        discovery.deadline_ms = replica.now_ms + replica.config.retry_backoff_ms
        return
    discovery.outstanding = replica.send(endpoint, request, peer)
    ask_too(replica, endpoint, peer)


def handle_search_response(
    replica: ReplicaState, sent: Outstanding, correlation: int, response: FetchResponse
) -> None:
    """The response to a searching Fetch: its records are not used, but the leader that it names is
    followed.
    """
    _search_done(replica, correlation)
    if not note_answer(replica, sent.peer, sent.destination, response.error):
        at, leader = sent.destination, response.leader
        end = leader.endpoint
        is_leader = end is not None and (at.host, at.port) == (end.host, end.port)
        # A replica that has just joined has no recovery in its log yet, but names the right leader.
        if is_leader and is_of_older_quorum(replica, leader):
            replica.out.append(OlderQuorum(response.leader, replica.recovered_epoch))
        led = isinstance(replica.role, Leader)
        observe_leader(replica, response.leader, sent.peer_id, error=response.error)
        role = replica.role
        if led and isinstance(role, Unattached) and role.election_deadline_ms is not None:
            # its log is complete, so it starts an election at once
            role.election_deadline_ms = replica.now_ms


def handle_search_failure(replica: ReplicaState, correlation: int) -> None:
    """The server did not respond: ask the next one, after a growing delay once all were asked."""
    _search_done(replica, correlation)


def _search_done(replica: ReplicaState, correlation: int) -> None:
    discovery = replica.discovery
    if discovery.outstanding != correlation:
        return
    discovery.outstanding = None
    discovery.failures += 1
    rounds = discovery.failures // max(1, len(targets(replica)))
    discovery.deadline_ms = replica.now_ms + replica.backoff_ms(rounds)
