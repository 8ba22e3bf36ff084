"""What a command of the controller sees: the state it decides on, and what it may not find out by itself. PURE.

Owns the shape. `image` counts records that are appended and not committed yet (KIP-631, "Persistence and
Visibility": the active controller's state is a little in the future); the shell holds answers back until
they are.
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
    """What the configuration says; Kafka's names and defaults."""

    max_metadata_age_ms: float = 30_000.0
    """A broker whose metadata is older is fenced; the length of the draft's lease."""
    default_replication_factor: int = 1
    num_partitions: int = 1
    max_moving_partitions: int = 1_000
    has_authorizer: bool = False
    """Whether access control entries mean anything."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """Configs of brokers that the node was started with: defaults of topics."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """What the leader knows of replicas beside the voters.

    `joining`: keys that are being added, or are wanted as voters; a UUID of None is any replica of that id.
    `fetching`: keys that fetch from this leader, voters, observers and brokers alike.
    """

    joining: tuple[ReplicaKey, ...] = ()
    fetching: tuple[ReplicaKey, ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class View:
    """One instant. `next_offset`: the record that this decision appends first gets this offset or a later one.

    `random(n)`: a number from 0 to n - 1. `stale_offset`: what was committed before this offset is older
    than `settings.max_metadata_age_ms`. `voters`: of an id that stands there twice the newest key comes last.
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
    """Asked for only by what needs it: this view is made for every command."""

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Ids of the voters."""
        return tuple([key.id for key in self.voters])

    def newest_voter(self, node_id: int) -> ReplicaKey | None:
        """The newest key of an id, if that is a voter."""
        return next((key for key in reversed(self.voters) if key.id == node_id), None)

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it."""
        return self.rights.allows(operation, resource, name)
