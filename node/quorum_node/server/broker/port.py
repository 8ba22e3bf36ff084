"""What the broker needs of the process around it, and of the replica of the metadata log: the port of this room."""

from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.raft.messages import CurrentLeader
from quorum_node.storage.errors import DiskFull, StorageFailure


class MetadataReplica(Protocol):
    """The observer of the metadata log on this node."""

    @property
    def committed(self) -> CommittedImage:
        """What is committed and applied."""

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""

    def knows_commits(self) -> bool:
        """Whether this process has heard from a leader, so that the high watermark is no memory."""

    def leader(self) -> CurrentLeader:
        """Whom this replica knows as the leader."""


class BrokerOwner(Protocol):
    """The process."""

    def ready(self) -> None:
        """The replicas are there: the listeners can be opened."""

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """The directory of partitions failed. The process ends soon; nothing is promised any more."""

    def superseded(self) -> None:
        """A later process has registered under this id."""
