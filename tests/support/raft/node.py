"""One node of the cores: its replica, its disk, and the requests that wait for its answers.

Owns the data and readable names and keys. Must not know how messages are delivered (`cores.py`).
"""

from dataclasses import dataclass, field
from uuid import UUID

from quorum_node.raft import QuorumState, RaftConfig, RaftError, Replica
from quorum_node.raft.events import Event
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import Response
from quorum_node.raft.outputs import AppendBatch, Halt, ProposalCommitted
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from support.raft.snapshots import NodeSnapshots

CLUSTER_ID = "cluster-A"
PORT = 9093


def endpoints_of(name: str) -> tuple[Endpoint, ...]:
    """The listeners of the node with that name; a host has no quotation marks."""
    host = name.replace("'", "_")
    return (Endpoint("CONTROLLER", host, PORT), Endpoint("ADMIN", host, 8080))


def name_at(host: str) -> str:
    """The node that listens there, unless one has moved."""
    return host.replace("_", "'")


def static_voters(*names: str) -> tuple[Voter, ...]:
    """controller.quorum.voters: a name is the id and the host."""
    return tuple(Voter(ReplicaKey(int(name)), endpoints_of(name)[:1]) for name in names)


def key_of(id: int, incarnation: int = 1) -> ReplicaKey:
    """A readable replica key: id and incarnation are in the UUID."""
    return ReplicaKey(id, UUID(int=(incarnation << 64) + id + 1))


@dataclass(slots=True)
class Node:
    """A replica with its log, its durable state and waiting requests."""

    name: str
    key: ReplicaKey
    config: RaftConfig
    jitter: float
    replica: Replica
    batches: list[AppendBatch] = field(default_factory=list)
    snapshots: NodeSnapshots = field(default_factory=NodeSnapshots)
    durable_batches: int = 0
    state: QuorumState | None = None
    up: bool = True
    hold_flush: bool = False
    hold_finish: bool = False
    finished: Event | None = None
    flush_wanted: bool = False
    halted: Halt | None = None
    waiting: dict[int, tuple[str, int]] = field(default_factory=dict)
    answers: dict[int, Response] = field(default_factory=dict)
    committed: dict[int, ProposalCommitted] = field(default_factory=dict)
    failed: dict[int, RaftError] = field(default_factory=dict)
    reads: dict[int, int | RaftError] = field(default_factory=dict)

    def epoch_at(self, offset: int) -> int | None:
        """Epoch of a record of the log, or of the one before its start."""
        if offset == self.snapshots.start.end_offset - 1:
            return self.snapshots.start.epoch
        for batch in self.batches:
            if batch.base_offset <= offset < batch.end_offset:
                return batch.leader_epoch
        return None

    @property
    def log_end(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.snapshots.start.end_offset

    @property
    def is_leader(self) -> bool:
        return self.up and isinstance(self.replica.role, Leader)

    def values(self, end_offset: int | None = None) -> list[str]:
        """Texts of the data records in the snapshot and the log behind it, up to an offset."""
        return self.snapshots.values() + [
            (record.value or b"").decode()
            for batch in self.batches
            for whole in split_batches(batch.data)[0]
            for record in decode_records(whole)
            if not whole.header.is_control
            and record.offset >= self.snapshots.start.end_offset
            and (end_offset is None or record.offset < end_offset)
        ]

    def committed_values(self) -> list[str]:
        return self.values(self.replica.high_watermark)
