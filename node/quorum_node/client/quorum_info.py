"""Results of the admin client: KIP-595's `QuorumInfo`, with KIP-853's replica UUIDs.

Owns the types. Must not know the requests.
"""

from dataclasses import dataclass

from quorum_node.records.identity import ReplicaKey


@dataclass(frozen=True, slots=True)
class VoterDescription:
    """A replica as its leader sees it; unknown fields are None. Times are wall clock."""

    key: ReplicaKey
    log_end_offset: int | None
    last_caught_up_time_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum of one partition, by node id; of an id with two keys the newest one.

    `target_voters` is empty unless an AlterQuorum is in progress.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    current_voters: dict[int, VoterDescription]
    target_voters: dict[int, VoterDescription]
    observers: dict[int, VoterDescription]


@dataclass(frozen=True, slots=True)
class AlterQuorumInfo:
    """A committed target: position of its voters record, and the leader of that time."""

    target_voters: tuple[int, ...] | None
    voters_offset: int
    voters_epoch: int
    leader_id: int
