"""Exit codes of `quorum-node` and the reasons in the termination message.

The operator, the restart policy of the pod and people read them, so they are part of the interface.
Numbers follow sysexits.h where one fits. Must not know how a failure is detected.
"""

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """What the exit status of the process means."""

    OK = 0
    """Graceful stop: SIGTERM, leadership handed over, all data synced."""

    IDENTITY_MISMATCH = 65
    """The data directory belongs to another node or cluster, or a second formation was refused."""

    INTERNAL_ERROR = 70
    """A bug. The data directory is as durable as after a crash."""

    OUT_OF_RESOURCES = 71
    """The process or its host lacks file descriptors or memory (EMFILE, ENFILE, ENOMEM). The disk did not fail.

    No failure latch is written: the next process is the same replica. Its data is as durable as after a crash.
    """

    DISK_FULL = 73
    """The disk is full. All data is intact; the replica can continue when there is more space."""

    STORAGE_FAILED = 74
    """EIO, EROFS, a failed fsync or corruption: the disk of this replica can't be trusted.

    The replica's failure latch is written. This incarnation never starts again.
    """

    NO_PERMISSION = 77
    """This user may not use the data directory; the message names the path. Nothing in it was changed.

    The operator recreates such a pod, since the kubelet sets owner and mode of a volume only for a new pod.
    """

    BAD_CONFIGURATION = 78
    """A configuration value is wrong; the message names key and value."""


class TerminationReason(StrEnum):
    """`reason` in the termination message."""

    STORAGE_FAILED = "StorageFailed"
    DISK_FULL = "DiskFull"
    OUT_OF_RESOURCES = "OutOfResources"
    NO_PERMISSION = "NoPermission"
    BAD_CONFIGURATION = "BadConfiguration"
    IDENTITY_MISMATCH = "IdentityMismatch"
    INTERNAL_ERROR = "InternalError"

    @property
    def exit_code(self) -> ExitCode:
        """The exit status that goes with the reason."""
        return _EXIT_CODES[self]

    @property
    def advice(self) -> str:
        """Recommended action, in one sentence. The message of the error may be more specific."""
        return _ADVICE[self]


_EXIT_CODES = {
    TerminationReason.STORAGE_FAILED: ExitCode.STORAGE_FAILED,
    TerminationReason.DISK_FULL: ExitCode.DISK_FULL,
    TerminationReason.OUT_OF_RESOURCES: ExitCode.OUT_OF_RESOURCES,
    TerminationReason.NO_PERMISSION: ExitCode.NO_PERMISSION,
    TerminationReason.BAD_CONFIGURATION: ExitCode.BAD_CONFIGURATION,
    TerminationReason.IDENTITY_MISMATCH: ExitCode.IDENTITY_MISMATCH,
    TerminationReason.INTERNAL_ERROR: ExitCode.INTERNAL_ERROR,
}
_ADVICE = {
    TerminationReason.STORAGE_FAILED: (
        "replace this replica by one with an empty disk; the operator does so by itself"
    ),
    TerminationReason.DISK_FULL: "give the volume more space, then start the node again",
    TerminationReason.OUT_OF_RESOURCES: (
        "raise the limit that the message names (open files or memory), then start the node again"
    ),
    TerminationReason.NO_PERMISSION: "correct the owner or the mode, then start the node again",
    TerminationReason.BAD_CONFIGURATION: "correct the configuration, then start the node again",
    TerminationReason.IDENTITY_MISMATCH: (
        "do what the message says; otherwise check node.id, cluster.id and which directory is mounted."
        " Nothing in it was changed"
    ),
    TerminationReason.INTERNAL_ERROR: "start the node again, and report this error",
}
