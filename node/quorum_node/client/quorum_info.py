"""What the admin client tells of a quorum: KIP-595's `QuorumInfo`, with KIP-853's replica UUIDs.

Owns the shapes. Must not know how they are asked for.
"""

from dataclasses import dataclass

from quorum_node.records.identity import ReplicaKey


@dataclass(frozen=True, slots=True)
class VoterDescription:
    """A replica as its leader sees it; None where nothing is known. Times are wall clock."""

    key: ReplicaKey
    log_end_offset: int | None
    last_caught_up_time_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum of one partition, by node id; of an id that stands twice the newest key.

    `target_voters` is empty while no AlterQuorum is under way.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    current_voters: dict[int, VoterDescription]
    target_voters: dict[int, VoterDescription]
    observers: dict[int, VoterDescription]


@dataclass(frozen=True, slots=True)
class AlterQuorumInfo:
    """A committed target: where its voters record stands, and who led then."""

    target_voters: tuple[int, ...] | None
    voters_offset: int
    voters_epoch: int
    leader_id: int
