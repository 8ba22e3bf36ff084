"""The port of this package: what the broker needs of the process, and of the replica of the metadata log."""

from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.raft.messages import CurrentLeader
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
        """Whether a leader has been heard from since the start, so that the high watermark is current and not only restored."""

    def leader(self) -> CurrentLeader:
        """The leader that this replica knows."""


class BrokerOwner(Protocol):
    """The process that hosts the broker."""

    def ready(self) -> None:
        """The replicas exist: open the listeners."""

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """The data directory failed. The process ends soon; the broker answers no more requests."""

    def wrong_directory(self, why: str) -> None:
        """The data directory belongs to another broker or cluster. The process ends soon."""

    def superseded(self) -> None:
        """A later process has registered under this id."""
