"""What is wrong with the files of one partition."""

from quorum_node.storage.errors import StorageFailure

HOW_TO_REPLACE = "Delete the partition's directory while the broker is stopped: it is then replicated again from the leader"


class DamagedLog(StorageFailure):
    """Bytes that were flushed are no longer what was written. Nothing is cut: the replica goes offline.

    Other partitions of the directory are not affected.
    """
