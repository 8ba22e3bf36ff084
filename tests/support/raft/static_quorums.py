"""Cores that are configured as a static quorum."""

from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import decode_control
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import Cores, Node

THREE = ("1", "2", "3")


def start(cores: Cores, *names: str, static: tuple[str, ...] = THREE) -> list[Node]:
    return [cores.start(name, static=static) for name in names]


def formed(cores: Cores) -> Node:
    """Three static voters that have written their voters record."""
    start(cores, *THREE)
    cores.advance(8000)
    leader = cores.leader
    assert leader.replica.formed
    return leader


def controls(node: Node) -> list[tuple[int, object]]:
    return [
        (record.offset, decode_control(record))
        for batch in node.batches
        for whole in split_batches(batch.data)[0]
        if whole.header.is_control
        for record in decode_records(whole)
    ]


def keys(node: Node) -> tuple[ReplicaKey, ...]:
    return node.replica.voters.latest.voters.ordered_keys
