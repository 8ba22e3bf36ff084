"""Errors in the files of one partition."""

from quorum_node.storage.errors import StorageFailure

HOW_TO_REPLACE = "Delete the partition's directory while the broker is stopped. The replica is then fetched again from the leader"


class DamagedLog(StorageFailure):
    """Synced data was changed on the disk. Nothing is truncated: the replica goes offline.

    Other partitions of the directory are not affected.
    """


class VoidSearch(Exception):
    """The log was truncated, moved or deleted during a search in it."""
