"""Checks of the cluster id in requests and answers.

Owns which requests need a cluster id, and when the replica halts because peers refuse its own. Must
not know the RPCs.
Source: KIP-595, "Error Codes" (INVALID_CLUSTER_ID: another cluster id, or none "when one was
expected") and "Quorum State" ("connect to a cluster with a different clusterId ... a fatal error");
K595-05, K595-20.

* Requests of members have to name the cluster: those of candidates, leaders, and voters that fetch.
Stock Kafka accepts requests without a cluster id, but its replicas always send one, so they are not
affected. A new replica learns the cluster id from the log, and a consumer needs none.
* A replica halts if so many peers refuse its cluster id that they form a majority of the voters. It
has the directory or the configuration of another cluster. A single lying peer can't cause this,
unless it is the only peer: an address that another process has announced for a voter does not
count, and is not asked again before the one of the voters record. A replica that knows no voter has
only the addresses of its configuration. Several of them may lead to one lying peer, e.g. Kubernetes
Services with one ready pod, and to another one a moment later: it halts if all of them keep refusing
for a fetch timeout. Once a leader has served the replica in this run, its cluster id is known to be
right and it never halts for this reason.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import DiscoverBrokersRequest
from quorum_node.raft.outputs import HaltReason
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.search_targets import targets
from quorum_node.records.identity import Endpoint, ReplicaKey

Peer = ReplicaKey | tuple[str, int]


def is_foreign(replica: ReplicaState, told: str | None, *, member: bool) -> bool:
    """Whether a request belongs to another cluster. `member`: its sender has to know the cluster id.

    Before the first voters record is known here, no sender has to: the first leader may not have
    created the id yet.
    """
    own = replica.cluster_id
    if own is None or told == own:
        return False
    return told is not None or (member and replica.voters.latest.offset >= 0)


def fetcher_is_member(replica: ReplicaState, key: ReplicaKey, fetch_offset: int) -> bool:
    """Whether a fetching replica is a voter that can know the cluster id.

    In a newly formed static quorum it may lack the first voters record, which contains the id.
    """
    if key not in replica.voters.committed.voters:
        return False
    leader = replica.role
    progress = leader.progress.get(key) if isinstance(leader, Leader) else None
    end_offset = fetch_offset if progress is None else max(fetch_offset, progress.end_offset)
    records = (entry.offset for entry in replica.voters.entries if entry.offset >= 0)
    first = next(records, None)
    return first is not None and end_offset > first


def note_answer(
    replica: ReplicaState, peer: ReplicaKey | None, place: Endpoint, error: RaftError
) -> bool:
    """Process an answer to a request that carried the cluster id; True if the replica halted."""
    if error is not RaftError.INVALID_CLUSTER_ID:
        if replica.refused_by:
            replica.refused_by.discard(_name(replica, peer, place))
            replica.refused_since_ms = None
        return False
    if replica.cluster_is_confirmed:
        return False
    if not _is_recorded(replica, place):
        if peer is not None:
            replica.gossip.address_failed(peer, place)
        return False
    replica.refused_by.add(_name(replica, peer, place))
    asked = _who_counts(replica)
    refused = asked & replica.refused_by
    members = max(len(replica.voters.latest.voters), len(asked))
    if len(refused) < min(majority(members), len(asked)):
        return False
    if not any(isinstance(each, ReplicaKey) for each in asked) and not _keep_refusing(replica):
        return False
    if replica.foreign_cluster_id is None and _has_question_out(replica):
        return False  # the answer to DiscoverBrokers carries the cluster id, so it counts as well
    names = ", ".join(sorted(map(_text, refused)))
    theirs = (
        ""
        if replica.foreign_cluster_id is None
        else f", which report cluster id {replica.foreign_cluster_id[:100]!r}"
    )
    replica.halt(
        HaltReason.IDENTITY_MISMATCH,
        f"cluster id {replica.reported_cluster_id!r} is refused by {names}{theirs}: this data directory, or"
        " cluster.id, belongs to another cluster than the voters in the configuration of this node",
    )
    return True


def _keep_refusing(replica: ReplicaState) -> bool:
    """Whether all addresses of the configuration have refused for so long that no other peer can be expected there."""
    if replica.refused_since_ms is None:
        replica.refused_since_ms = replica.now_ms
    return replica.now_ms - replica.refused_since_ms >= replica.config.fetch_timeout_ms


def _is_recorded(replica: ReplicaState, place: Endpoint) -> bool:
    """Whether the address is of the configuration, or of a voters record."""
    config = replica.config
    voters = [voter for entry in replica.voters.entries for voter in entry.voters]
    recorded = [voter.endpoint(CONTROLLER) for voter in (*config.static_voters, *voters)]
    return any(
        each is not None and (each.host, each.port) == (place.host, place.port)
        for each in (*config.bootstrap, *recorded)
    )


def _who_counts(replica: ReplicaState) -> set[Peer]:
    """The other voters; while none is known, the addresses of the configuration.

    A voter may also listen at such an address, e.g. that of a Kubernetes Service. It counts once.
    """
    found = targets(replica)
    voters: set[Peer] = {key for key, _ in found if key is not None}
    return voters or {_name(replica, None, endpoint) for _, endpoint in found}


def _has_question_out(replica: ReplicaState) -> bool:
    sent = replica.outstanding.values()
    return any(isinstance(each.request, DiscoverBrokersRequest) for each in sent)


def _name(replica: ReplicaState, peer: ReplicaKey | None, place: Endpoint) -> Peer:
    if peer is not None:
        return peer
    for key, endpoint in targets(replica):
        if key is not None and (endpoint.host, endpoint.port) == (place.host, place.port):
            return key
    return place.host, place.port


def _text(peer: Peer) -> str:
    return str(peer) if isinstance(peer, ReplicaKey) else f"{peer[0]}:{peer[1]}"
