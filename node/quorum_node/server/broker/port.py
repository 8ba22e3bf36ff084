"""The port of this package: the broker's requirements on the process and on the replica of the metadata log."""

from typing import Protocol

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.raft.messages import CurrentLeader
from quorum_node.server.rights.port import Guard
from quorum_node.storage.errors import DiskFull, StorageFailure


class MetadataReplica(Protocol):
    """The observer of the metadata log on this node."""

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    @property
    def high_watermark(self) -> int:
        """End of the committed records."""

    def knows_commits(self) -> bool:
        """Whether a leader has sent a message since the start, so that the high watermark is current and not only restored."""

    def leader(self) -> CurrentLeader:
        """The current leader according to this replica."""


class BrokerOwner(Protocol):
    """The process that hosts the broker."""

    def may_register(self, image: ClusterImage) -> bool:
        """Whether the broker may register, by the committed image: not before the controller of the same process, if it has one."""

    def guard_of_broker(self) -> Guard | None:
        """The authorizer of requests to the broker; None if there is none. Called once, before the listeners open."""

    def ready(self) -> None:
        """Open the listeners: the replicas are created."""

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """End the process soon: every log directory failed. The broker answers no more requests."""

    def failure_unreported(self, path: str) -> None:
        """End the process soon: the active controller could not be informed in time that a log directory failed.

        It would not move the leaderships of the replicas in this directory while the lease of this broker is renewed.
        """

    def wrong_directory(self, why: str) -> None:
        """End the process soon: the data directory belongs to another broker or cluster, or is a copy."""

    def wrong_configuration(self, why: str) -> None:
        """End the process soon: the cluster does not support what is configured."""

    def superseded(self) -> None:
        """End the process: a later process has registered with this broker id."""
