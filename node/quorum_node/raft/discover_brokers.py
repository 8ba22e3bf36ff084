"""DiscoverBrokers: voters tell each other where they listen; anyone may ask.

Owns both sides of the RPC and when it is sent. Must not know what addresses are used for.
Source: KIP-595, "DiscoverBrokers" and "Bootstrapping Procedure" (K595-18, K595-19). No leader and no
majority is needed for it. As sent here:

* A voter tells every other voter once in each run where it listens, and hears where they do; those that
  can't be reached are told when they can. Two that moved at the same time find each other through a third.
* What a target voter of an AlterQuorum announces is kept, too, from the record of the target until it is
  reached or cancelled.
* Whoever looks for the leader also asks the servers that it searches: voters that none of its bootstrap
  servers is get known, and the answer names the leader.
* A boot timestamp is the sender's wall clock. One that has gone back since the last boot is noticed when
  a peer still tells the old address of this very key: the sender then raises its own above that.

While voters of a static quorum are known by id alone, no address but the configured ones is believed.
"""

from quorum_node.raft.cluster_identity import note_answer
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.endpoint_gossip import NOT_HEARD_MS, HeardEndpoint, is_target
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.seen_recoveries import is_kept_from, told_leader
from quorum_node.raft.transitions import observe_leader
from quorum_node.records.identity import Endpoint, ReplicaKey

MAX_STRANGERS = 20
LATEST_BOOT_MS = 1 << 53
"""No clock says more; a later boot must still fit behind it on the wire."""
_PATIENCE = 8
_SLOW_FACTOR = 5


def handle_discover_brokers(
    replica: ReplicaState, request_id: int, request: DiscoverBrokersRequest
) -> None:
    """Hear where the sender listens if it is a voter or a target voter, and tell of all voters."""
    if request.replica.id >= 0 and request.endpoint is not None:
        heard = HeardEndpoint(request.replica, request.boot_timestamp_ms, request.endpoint)
        _hear(replica, heard, asked=False)
    leader = told_leader(replica, request.replica, -1)
    response = DiscoverBrokersResponse(
        RaftError.NONE, leader, replica.cluster_id, known_brokers(replica)
    )
    replica.respond(request_id, response)


def known_brokers(replica: ReplicaState) -> tuple[HeardEndpoint, ...]:
    """Every voter with the address that is newest here; by record or configuration if unheard."""
    found = []
    for voter in replica.voters.latest.voters:
        heard = replica.gossip.get(voter.key)
        recorded = voter.endpoint(CONTROLLER)
        if voter.key == replica.key and replica.controller_endpoint is not None:
            found.append(_own(replica, replica.controller_endpoint))
        elif heard is not None:
            found.append(heard)
        elif recorded is not None:
            found.append(HeardEndpoint(voter.key, NOT_HEARD_MS, recorded))
    return tuple(found)


def handle_discover_response(
    replica: ReplicaState,
    sent: Outstanding,
    request: DiscoverBrokersRequest,
    response: DiscoverBrokersResponse,
) -> None:
    """Hear what the peer knows; nothing from another cluster, or from one that can't say."""
    if _is_of_another_cluster(replica, response):
        replica.foreign_cluster_id = response.cluster_id
        note_answer(replica, sent.peer, sent.destination, RaftError.INVALID_CLUSTER_ID)
    elif response.error is RaftError.NONE:
        for heard in response.brokers:
            if heard.key == replica.key:
                _hear_of_myself(replica, heard)
            else:
                _hear(replica, heard, asked=True)
        if is_kept_from(response.leader):
            _ask_there(replica, response.brokers)
        if not replica.recovered_epoch:
            # Else voters from before the recovery are told apart by the answer to a Fetch, which goes there as well.
            observe_leader(replica, response.leader)
    if sent.peer is not None and request.boot_timestamp_ms == replica.boot_timestamp_ms:
        replica.gossip.was_told(sent.peer)


def handle_discover_failure(
    replica: ReplicaState, sent: Outstanding, reason: FailureReason
) -> None:
    """Tell it later; a peer that does not speak this will not learn it."""
    if sent.peer is not None and reason is FailureReason.UNSUPPORTED:
        replica.gossip.was_told(sent.peer)


def announce(replica: ReplicaState) -> None:
    """Tell where this voter listens to every voter that does not know it yet."""
    gossip = replica.gossip
    if not gossip.untold or replica.now_ms < gossip.next_ms or replica.controller_endpoint is None:
        return
    asked = {
        sent.peer
        for sent in replica.outstanding.values()
        if isinstance(sent.request, DiscoverBrokersRequest)
    }
    for key in gossip.untold:
        endpoint = replica.endpoint_of(key)
        if endpoint is not None and key not in asked:
            replica.send(endpoint, _request(replica), key)
    gossip.failures += 1
    patience = 1 if gossip.failures < _PATIENCE else _SLOW_FACTOR
    gossip.next_ms = replica.now_ms + replica.backoff_ms(gossip.failures) * patience


def next_deadline_ms(replica: ReplicaState) -> float | None:
    """When `announce` has something to do."""
    if not replica.gossip.untold or replica.controller_endpoint is None or replica.stopping:
        return None
    return replica.gossip.next_ms


def ask_too(replica: ReplicaState, endpoint: Endpoint, peer: ReplicaKey | None) -> None:
    """Beside a Fetch that looks for the leader: one question at a time."""
    for sent in replica.outstanding.values():
        if isinstance(sent.request, DiscoverBrokersRequest) and sent.destination == endpoint:
            return
    replica.send(endpoint, _request(replica), peer)


def _request(replica: ReplicaState) -> DiscoverBrokersRequest:
    return DiscoverBrokersRequest(
        replica.key, replica.boot_timestamp_ms, replica.controller_endpoint
    )


def _own(replica: ReplicaState, endpoint: Endpoint) -> HeardEndpoint:
    return HeardEndpoint(replica.key, replica.boot_timestamp_ms, endpoint)


def _hear(replica: ReplicaState, heard: HeardEndpoint, *, asked: bool) -> None:
    if heard.boot_timestamp_ms >= LATEST_BOOT_MS:
        return
    voters = replica.voters.latest.voters
    key, strangers = heard.key, replica.gossip.strangers
    if replica.ids_only or not len(voters):
        # Nobody can be told apart yet: an address to ask for the leader, no more. Whoever only came and
        # said that it listens there is not asked, as it would name itself.
        if asked and len(strangers) < MAX_STRANGERS and heard.endpoint not in strangers:
            strangers.append(heard.endpoint)
        return
    if key.uuid is None:
        newest = voters.newest(key.id)
        if newest is not None:
            key = newest.key
    if key == replica.key:
        return
    if key in voters:
        replica.gossip.hear(HeardEndpoint(key, heard.boot_timestamp_ms, heard.endpoint))
    elif is_target(key, replica.target_voters()):
        replica.gossip.hear_of_target(heard, voters.ordered_keys)


def _ask_there(replica: ReplicaState, brokers: tuple[HeardEndpoint, ...]) -> None:
    """The leader tells a voter from before a recovery about itself, and nobody else does: ask all who may lead."""
    voters, strangers = replica.voters.latest.voters, replica.gossip.strangers
    for heard in brokers:
        if heard.key not in voters and heard.endpoint not in strangers:
            strangers.append(heard.endpoint)
    del strangers[:-MAX_STRANGERS]


def _hear_of_myself(replica: ReplicaState, heard: HeardEndpoint) -> None:
    """An old address of this key with a later boot: the wall clock has gone back since."""
    own = replica.controller_endpoint
    if heard.boot_timestamp_ms >= LATEST_BOOT_MS:
        return
    if heard.boot_timestamp_ms >= replica.boot_timestamp_ms and heard.endpoint != own:
        replica.boot_timestamp_ms = heard.boot_timestamp_ms + 1
        replica.gossip.tell_again()


def _is_of_another_cluster(replica: ReplicaState, response: DiscoverBrokersResponse) -> bool:
    theirs, own = response.cluster_id, replica.told_cluster_id
    return theirs is not None and own is not None and theirs != own
