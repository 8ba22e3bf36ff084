"""Safety checks of voter changes.

Owns which voters count as live or as witnesses, and the refusals. `quorum_arithmetic` defines how
many are enough. Must not know how a change is carried out.
Source: the project's change rule.
Add: the live voters before the add have to be a majority of the new set, with the new voter counted
as dead. Exempt are a single voter and a quorum in formation. With the order "add first" for a
failed disk a new voter that has caught up counts as live.
Remove: the live, caught-up voters of the new set have to be its majority.
Both: every majority of the new set has to contain a voter that can become leader. Observers never
count.
"""

from dataclasses import dataclass

from quorum_node.quorum_arithmetic import (
    live_to_add,
    live_to_remove,
    majority,
    may_have_witnesses,
)
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import UpdateVoterRequest, voter_entry
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterSet
from quorum_node.records.dialable import why_unusable
from quorum_node.records.identity import Endpoint, ReplicaKey


@dataclass(frozen=True, slots=True)
class Refusal:
    error: RaftError
    message: str


def is_fetching(replica: ReplicaState, progress: Progress) -> bool:
    """Whether it fetched within the fetch timeout."""
    last_ms = progress.last_fetch_ms
    return last_ms is not None and replica.now_ms - last_ms < replica.config.fetch_timeout_ms


def is_caught_up(replica: ReplicaState, progress: Progress) -> bool:
    """Whether it had everything that the leader had, within the fetch timeout, and has lost none of
    it since.
    """
    last_ms = progress.last_caught_up_ms
    if last_ms is None or progress.doubted >= 0 or not is_fetching(replica, progress):
        return False
    return replica.now_ms - last_ms < replica.config.fetch_timeout_ms


def live_voters(replica: ReplicaState, leader: Leader, voters: VoterSet) -> int:
    """Voters that fetch and are caught up; the leader counts itself if it is one of them."""
    count = 0
    for key in voters.ordered_keys:
        if key == replica.key:
            count += 1
        elif (progress := leader.progress.get(key)) is not None:
            count += is_caught_up(replica, progress)
    return count


def is_witness(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> bool:
    """Whether the replica has declared, in this epoch, that it is a witness."""
    if key == replica.key:
        return replica.config.witness
    progress = leader.progress.get(key)
    return progress is not None and progress.witness is True


def check_add(
    replica: ReplicaState,
    key: ReplicaKey,
    endpoints: tuple[Endpoint, ...],
    count_newcomer: bool,
) -> Refusal | None:
    """Why `key` can't become a voter now, or None."""
    leader = replica.role
    assert isinstance(leader, Leader)
    voters = replica.voters.latest.voters
    if key.uuid is None or key.id < 0:
        return Refusal(RaftError.INVALID_REQUEST, f"{key} is not a replica key")
    if (unusable := check_endpoints(key, endpoints)) is not None:
        return unusable
    if key in voters:
        return Refusal(RaftError.DUPLICATE_VOTER, str(key))
    if (new_id := refusal_of_new_id(replica, key.id)) is not None:
        return new_id
    if sum(voter.key.id == key.id for voter in voters) > 1:
        return Refusal(
            RaftError.DUPLICATE_VOTER, f"id {key.id} has two keys in the voter set already"
        )
    if (stock := _stock_beside_doubled_id(replica, leader, key)) is not None:
        message = f"{stock} runs stock Kafka, which supports one voter per id: remove the other key of id {key.id} first"
        return Refusal(RaftError.UNSAFE_CHANGE, message)
    if (refusal := _check_witnesses(replica, leader, (*voters.ordered_keys, key))) is not None:
        return refusal
    if not replica.formed:
        return None
    live = live_voters(replica, leader, voters) + count_newcomer
    needed = live_to_add(len(voters))
    if live < needed:
        message = f"{live} live voters, {needed} needed for a set of {len(voters) + 1}"
        return Refusal(RaftError.UNSAFE_CHANGE, message)
    return None


def _check_witnesses(
    replica: ReplicaState, leader: Leader, keys: tuple[ReplicaKey, ...]
) -> Refusal | None:
    """Every majority has to contain a voter that can become leader.

    Otherwise committed records could exist on witnesses alone.
    """
    witnesses = sum(is_witness(replica, leader, key) for key in keys)
    if may_have_witnesses(len(keys), witnesses):
        return None
    message = f"{witnesses} of {len(keys)} voters would be witnesses, which can't become leader"
    return Refusal(RaftError.UNSAFE_CHANGE, message)


def needs_witness(replica: ReplicaState, leader: Leader, voters: VoterSet) -> bool:
    """Whether the voters that can become leader have no majority without a witness, even if all are alive."""
    may_lead = sum(not is_witness(replica, leader, key) for key in voters.ordered_keys)
    return may_lead < majority(len(voters))


def stock_voters(replica: ReplicaState, leader: Leader) -> tuple[ReplicaKey, ...]:
    """Voters whose fetches in this epoch lack our private fields.

    Dead voters are not included, as their software is unknown.
    """
    progress = leader.progress
    return tuple(
        key
        for key in replica.voters.latest.voters.ordered_keys
        if key in progress and progress[key].stock is True
    )


def _stock_beside_doubled_id(
    replica: ReplicaState, leader: Leader, key: ReplicaKey
) -> ReplicaKey | None:
    """A stock voter of a set in which one id has two keys, including the new voter."""
    if replica.voters.latest.voters.newest(key.id) is None:
        return None
    newcomer = leader.progress.get(key)
    if newcomer is not None and newcomer.stock:
        return key
    return next(iter(stock_voters(replica, leader)), None)


def refusal_of_new_id(replica: ReplicaState, voter_id: int) -> Refusal | None:
    """KIP-853: with `controller.quorum.voters` no replica id can be added."""
    static = replica.config.static_voters
    if not static or replica.voters.latest.voters.newest(voter_id) is not None:
        return None
    if any(voter.key.id == voter_id for voter in static):
        return None
    message = (
        f"id {voter_id} is new, and this quorum is configured by controller.quorum.voters, which"
        " only allows a known id to change its UUID; to add ids, replace that property by"
        " controller.quorum.bootstrap.servers and restart the node"
    )
    return Refusal(RaftError.NEW_VOTER_ID, message)


def check_self_join(replica: ReplicaState, key: ReplicaKey) -> Refusal | None:
    """Why `key` can't join automatically, or None. Only a new replica may.

    In shipped Kafka a removed controller adds itself again and again (KAFKA-19850).
    """
    latest = replica.voters.latest
    if key in latest.record.tombstones:
        return Refusal(RaftError.TOMBSTONED, str(key))
    if latest.voters.newest(key.id) is not None:
        reason = f"id {key.id} is that of a voter; if its disk is lost, remove that voter first"
        return Refusal(RaftError.DUPLICATE_VOTER, reason)
    return None


def check_remove(replica: ReplicaState, key: ReplicaKey) -> Refusal | None:
    """Why `key` can't be removed from the voters now, or None."""
    leader = replica.role
    assert isinstance(leader, Leader)
    voters = replica.voters.latest.voters
    if key not in voters:
        return Refusal(RaftError.VOTER_NOT_FOUND, str(key))
    if len(voters) == 1:
        return Refusal(RaftError.INVALID_REQUEST, "the last voter can't be removed")
    newest = voters.newest(key.id)
    if newest is not None and newest.key != key and newest.key != replica.key:
        successor = leader.progress.get(newest.key)
        fetched = -1 if successor is None else successor.end_offset
        if fetched <= replica.voters.latest.offset:
            message = f"{newest.key} has not fetched past the record that made it a voter"
            return Refusal(RaftError.NOT_CAUGHT_UP, message)
    remaining = voters.removed(key)
    if (refusal := _check_witnesses(replica, leader, remaining.ordered_keys)) is not None:
        return refusal
    live, needed = live_voters(replica, leader, remaining), live_to_remove(len(voters))
    if live < needed:
        message = f"{live} live voters would remain, {needed} needed of {len(remaining)}"
        return Refusal(RaftError.UNSAFE_CHANGE, message)
    return None


def check_endpoints(key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> Refusal | None:
    """Why the endpoints of a voter are insufficient, or None."""
    if voter_entry(key, endpoints).endpoint("CONTROLLER") is None:
        return Refusal(RaftError.INVALID_REQUEST, "no CONTROLLER endpoint")
    why = why_unusable(endpoints)
    return None if why is None else Refusal(RaftError.INVALID_REQUEST, why)


def check_update(replica: ReplicaState, request: UpdateVoterRequest) -> Refusal | None:
    """Why the endpoints of a voter can't be changed now, or None.

    KIP-853: a voter updates itself. The request states its key and the epoch in which it follows
    this leader. Without certificates nothing else can be checked: any process that can reach the
    controller listener and sends DescribeQuorum knows both.
    """
    if request.voter not in replica.voters.latest.voters:
        return Refusal(RaftError.VOTER_NOT_FOUND, str(request.voter))
    if not request.by_operator:
        if request.voter == replica.key:
            message = (
                f"{request.voter} is the leader, which changes its own entry without a request"
            )
            return Refusal(RaftError.INVALID_REQUEST, message)
        if request.current_leader_epoch < replica.epoch:
            return Refusal(RaftError.FENCED_LEADER_EPOCH, "")
        if request.current_leader_epoch > replica.epoch:
            return Refusal(RaftError.UNKNOWN_LEADER_EPOCH, "")
    if not request.min_kraft_version <= replica.kraft_version <= request.max_kraft_version:
        return Refusal(RaftError.UNSUPPORTED_VERSION, "")
    return None
