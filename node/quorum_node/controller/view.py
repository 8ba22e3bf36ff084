"""The view of a command of the controller: the state to decide on, and inputs such as time and
randomness. PURE.

Owns its fields. `image` includes records that are appended and not committed yet, the speculative
state (KIP-631, "Persistence and Visibility"). The caller holds responses back until they are
committed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from quorum_node.controller.authorization import (
    ANONYMOUS,
    CLUSTER_NAME,
    NOBODY,
    UNRESTRICTED,
    AclOperation,
    AclResource,
    Caller,
    Rights,
)
from quorum_node.controller.leases import BrokerLeases
from quorum_node.controller.snapshot_turns import SnapshotTurns
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.made_often import made_often
from quorum_node.records.identity import ReplicaKey

__all__ = [
    "ANONYMOUS",
    "NOBODY",
    "UNRESTRICTED",
    "Caller",
    "Replicas",
    "Rights",
    "Settings",
    "View",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings from the configuration; names and defaults are Kafka's."""

    max_metadata_age_ms: float = 30_000.0
    """A broker whose metadata is older is fenced; the default is the lease of KIP-631."""
    default_replication_factor: int = 1
    num_partitions: int = 1
    max_moving_partitions: int = 1_000
    has_authorizer: bool = False
    """Whether access control entries have an effect."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """Broker configs of this node's configuration file: defaults of topics."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas besides the voters, as far as the leader has information about them.

    `joining`: keys that are being added, or are target voters; a UUID of None is any replica of
    that id. `fetching`: keys that fetch from this leader: voters, observers and brokers.
    """

    joining: tuple[ReplicaKey, ...] = ()
    fetching: tuple[ReplicaKey, ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class View:
    """The view at one instant.

    `next_offset`: lower bound for the offset of the first record of this decision. `random(n)`: a
    number from 0 to n - 1. `stale_offset`: records committed before this offset are older than
    `settings.max_metadata_age_ms`. `voters`: of two keys with one id the newest comes last.
    """

    image: ClusterImage
    leases: BrokerLeases
    now_ms: float
    fresh_uuid: Callable[[], UUID]
    random: Callable[[int], int]
    leader_epoch: int
    next_offset: int
    cluster_id: str = ""
    node_id: int = -1
    voters: tuple[ReplicaKey, ...] = ()
    stale_offset: int = 0
    settings: Settings = Settings()
    snapshot_turns: SnapshotTurns | None = None
    caller: Caller = ANONYMOUS
    rights: Rights = UNRESTRICTED
    replicas: Callable[[], Replicas] = Replicas
    """Computed on demand, as the view is created for every command."""

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Ids of the voters."""
        return tuple([key.id for key in self.voters])

    def newest_voter(self, node_id: int) -> ReplicaKey | None:
        """The newest key of an id, if it is a voter."""
        return next((key for key in reversed(self.voters) if key.id == node_id), None)

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it."""
        return self.rights.allows(operation, resource, name)
