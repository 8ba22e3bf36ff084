"""DiscoverBrokers: voters exchange their addresses; any client may ask for them.

Owns both sides of the RPC and when it is sent. Must not know what addresses are used for.
Source: KIP-595, "DiscoverBrokers" and "Bootstrapping Procedure" (K595-18, K595-19). It needs no
leader and no majority.

* In each run a voter sends its address once to every other voter and receives theirs. Unreachable
voters get it when they are reachable again. Two voters that move at the same time find each other
through a third one.
* The addresses of target voters of an AlterQuorum are stored as well, while there is a target.
* A replica that looks for the leader sends the request to every server it asks. Thus it learns of
voters that are not among its bootstrap servers, and the response names the leader.
* A boot timestamp is the wall clock of the sender. If the clock was set back since the last boot, a
peer returns an older address of this key with a higher timestamp. The sender then raises its own
above that.

While the voters of a static quorum are known by id alone, only configured addresses are used.
"""

from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.endpoint_gossip import (
    LATEST_BOOT_MS,
    NOT_RECEIVED_MS,
    ReceivedEndpoint,
    is_target,
)
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.seen_recoveries import leader_for_sender, withholds_leader
from quorum_node.raft.transitions import observe_leader
from quorum_node.records.identity import Endpoint, ReplicaKey

MAX_UNKNOWN_REPLICAS = 20
_PATIENCE = 8
_SLOW_FACTOR = 5


def handle_discover_brokers(
    replica: ReplicaState, request_id: int, request: DiscoverBrokersRequest
) -> None:
    """Store the sender's address if it is a voter or a target voter; return the addresses of all voters."""
    if request.replica.id >= 0 and request.endpoint is not None:
        heard = ReceivedEndpoint(request.replica, request.boot_timestamp_ms, request.endpoint)
        _hear(replica, heard, asked=False)
    leader = leader_for_sender(replica, request.replica, -1)
    response = DiscoverBrokersResponse(
        RaftError.NONE, leader, replica.cluster_id, known_brokers(replica)
    )
    replica.respond(request_id, response)


def known_brokers(replica: ReplicaState) -> tuple[ReceivedEndpoint, ...]:
    """Every voter with its newest known address; the one of the record or the configuration if
    there is no other.
    """
    found = []
    for voter in replica.voters.latest.voters:
        heard = replica.gossip.get(voter.key)
        recorded = voter.endpoint(CONTROLLER)
        if voter.key == replica.key and replica.controller_endpoint is not None:
            found.append(_own(replica, replica.controller_endpoint))
        elif heard is not None:
            found.append(heard)
        elif recorded is not None:
            found.append(ReceivedEndpoint(voter.key, NOT_RECEIVED_MS, recorded))
    return tuple(found)


def handle_discover_response(
    replica: ReplicaState,
    sent: Outstanding,
    request: DiscoverBrokersRequest,
    response: DiscoverBrokersResponse,
) -> None:
    """Store the addresses in a response, unless it comes from another cluster or names no cluster."""
    if _is_of_another_cluster(replica, response):
        replica.foreign_cluster_id = response.cluster_id
        note_answer(replica, sent.peer, sent.destination, RaftError.INVALID_CLUSTER_ID)
    elif response.error is RaftError.NONE:
        for heard in response.brokers:
            if heard.key == replica.key:
                _hear_of_myself(replica, heard)
            else:
                _hear(replica, heard, asked=True)
        if withholds_leader(response.leader):
            _ask_there(replica, response.brokers)
        if not replica.recovered_epoch:
            # Without a cluster id the response to a Fetch, which is sent to the same peer,
            # identifies voters from before a recovery.
            observe_leader(replica, response.leader, sent.peer_id, error=response.error)
    if sent.peer is not None and request.boot_timestamp_ms == replica.boot_timestamp_ms:
        replica.gossip.was_announced(sent.peer)


def handle_discover_failure(
    replica: ReplicaState, sent: Outstanding, reason: FailureReason
) -> None:
    """Send the address again later; a peer that does not support the RPC is left out."""
    if sent.peer is not None and reason is FailureReason.UNSUPPORTED:
        replica.gossip.was_announced(sent.peer)


def announce(replica: ReplicaState) -> None:
    """Send this voter's address to every voter that has not received it yet."""
    gossip = replica.gossip
    if (
        not gossip.unannounced
        or replica.now_ms < gossip.next_ms
        or replica.controller_endpoint is None
    ):
        return
    asked = {
        sent.peer
        for sent in replica.outstanding.values()
        if isinstance(sent.request, DiscoverBrokersRequest)
    }
    for key in gossip.unannounced:
        endpoint = replica.endpoint_of(key)
        if endpoint is not None and key not in asked:
            replica.send(endpoint, _request(replica), key)
    gossip.failures += 1
    patience = 1 if gossip.failures < _PATIENCE else _SLOW_FACTOR
    gossip.next_ms = replica.now_ms + replica.backoff_ms(gossip.failures) * patience


def next_deadline_ms(replica: ReplicaState) -> float | None:
    """When `announce` has work to do."""
    if not replica.gossip.unannounced or replica.controller_endpoint is None or replica.stopping:
        return None
    return replica.gossip.next_ms


def ask_too(replica: ReplicaState, endpoint: Endpoint, peer: ReplicaKey | None) -> None:
    """Sent together with a Fetch that looks for the leader; one request at a time."""
    for sent in replica.outstanding.values():
        if isinstance(sent.request, DiscoverBrokersRequest) and sent.destination == endpoint:
            return
    replica.send(endpoint, _request(replica), peer)


def _request(replica: ReplicaState) -> DiscoverBrokersRequest:
    return DiscoverBrokersRequest(
        replica.key, replica.boot_timestamp_ms, replica.controller_endpoint
    )


def _own(replica: ReplicaState, endpoint: Endpoint) -> ReceivedEndpoint:
    return ReceivedEndpoint(replica.key, replica.boot_timestamp_ms, endpoint)


def _hear(replica: ReplicaState, heard: ReceivedEndpoint, *, asked: bool) -> None:
    if heard.boot_timestamp_ms > LATEST_BOOT_MS:
        return
    voters = replica.voters.latest.voters
    key, strangers = heard.key, replica.gossip.strangers
    if replica.ids_only or not len(voters):
        # No keys are known yet, so the address is only used to look for the leader. A sender that
        # merely announced its own address is not asked, as it would name itself.
        if asked and len(strangers) < MAX_UNKNOWN_REPLICAS and heard.endpoint not in strangers:
            strangers.append(heard.endpoint)
        return
    if key.uuid is None:
        newest = voters.newest(key.id)
        if newest is not None:
            key = newest.key
    if key == replica.key:
        return
    if key in voters:
        replica.gossip.hear(ReceivedEndpoint(key, heard.boot_timestamp_ms, heard.endpoint))
    elif is_target(key, replica.target_voters()):
        replica.gossip.learn_target(heard, voters.ordered_keys)


def _ask_there(replica: ReplicaState, brokers: tuple[ReceivedEndpoint, ...]) -> None:
    """Ask all possible leaders. A voter from before a recovery learns the new leader only from that leader."""
    voters, strangers = replica.voters.latest.voters, replica.gossip.strangers
    for heard in brokers:
        if heard.key not in voters and heard.endpoint not in strangers:
            strangers.append(heard.endpoint)
    del strangers[:-MAX_UNKNOWN_REPLICAS]


def _hear_of_myself(replica: ReplicaState, heard: ReceivedEndpoint) -> None:
    """A peer returned an old address of this key with a later boot: the wall clock was set back since."""
    own = replica.controller_endpoint
    if heard.boot_timestamp_ms > LATEST_BOOT_MS:
        return
    if heard.boot_timestamp_ms >= replica.boot_timestamp_ms and heard.endpoint != own:
        replica.boot_timestamp_ms = min(heard.boot_timestamp_ms + 1, LATEST_BOOT_MS)
        replica.gossip.announce_again()


def _is_of_another_cluster(replica: ReplicaState, response: DiscoverBrokersResponse) -> bool:
    theirs, own = response.cluster_id, replica.reported_cluster_id
    return theirs is not None and own is not None and theirs != own
