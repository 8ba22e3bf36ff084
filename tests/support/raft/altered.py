"""AlterQuorum in tests of the core: sending it, waiting for it, and checking the records."""

from collections.abc import Iterable
from itertools import pairwise

from quorum_node.raft.messages import (
    AlterQuorumRequest,
    VoterChangeResponse,
)
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores


def target_of(ids: Iterable[int] | None) -> tuple[ReplicaKey, ...] | None:
    """Entries without UUIDs; None cancels."""
    return None if ids is None else tuple(ReplicaKey(each) for each in ids)


def alter(node: Node, cores: Cores, ids: Iterable[int] | None) -> VoterChangeResponse:
    """Ask a node for new target voters; the answer."""
    answer = cores.request(node, AlterQuorumRequest(CLUSTER_ID, target_of(ids), 3000))
    assert isinstance(answer, VoterChangeResponse), answer
    return answer


def records(node: Node) -> list[VotersRecord]:
    """Every voters record in a node's log, oldest first."""
    return [
        control
        for batch in node.batches
        for whole in split_batches(batch.data)[0]
        if whole.header.is_control
        for record in decode_records(whole)
        if isinstance(control := decode_control(record), VotersRecord)
    ]


def ids_of(record: VotersRecord) -> list[int]:
    """Ids of the voters in a record."""
    return [voter.key.id for voter in record.voters]


def history(node: Node) -> list[list[int]]:
    """Voter ids from record to record, without repetitions."""
    sets = [ids_of(record) for record in records(node)]
    return [sets[0]] + [after for before, after in pairwise(sets) if set(before) != set(after)]


def target(node: Node) -> list[int] | None:
    """Ids of the target in a node's latest voters record."""
    found = node.replica.voters.latest.record.target_voters
    return None if found is None else [key.id for key in found]


def six(*initial: str) -> tuple[Cores, Node]:
    """A quorum of (1, 2, 3) led by 1, and caught-up observers 4, 5 and 6."""
    cores, one = formed_cores(*(initial or ("1", "2", "3")))
    for name in ("4", "5", "6"):
        if name not in cores.nodes:
            cores.start(name, bootstrap=["1", "2"])
    cores.advance(700)
    return cores, one


def is_reached(cores: Cores, ids: set[int]) -> bool:
    """The newest leader has committed these voters and has no target any more."""
    leaders = [node for node in cores.nodes.values() if node.is_leader]
    if not leaders:
        return False
    voters = max(leaders, key=lambda node: node.replica.epoch).replica.voters
    reached = {key.id for key in voters.latest.voters.ordered_keys} == ids
    return reached and voters.latest_is_committed and voters.latest.record.target_voters is None


def reach(cores: Cores, ids: set[int], limit_ms: float = 20_000) -> Node:
    """Wait until the target is reached; returns the leader at that time."""
    for _ in range(int(limit_ms / 50)):
        if is_reached(cores, ids):
            return cores.leader
        cores.advance(50)
    voters = {name: history(node)[-1] for name, node in cores.nodes.items() if node.batches}
    raise AssertionError(f"{ids} not reached: {voters}, {cores.leader.replica.describe(0).plan}")
