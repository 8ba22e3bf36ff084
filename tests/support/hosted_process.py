"""A `ProcessPort` for tests: records how hosted partitions ended, and raises bugs in the test."""

from quorum_node.raft.outputs import Halt, VotersChanged
from quorum_node.server.partition.port import HostedPartition


class RecordingProcess:
    """`ProcessPort`."""

    def __init__(self) -> None:
        self.halts: list[Halt] = []

    def halted(self, halt: Halt) -> None:
        """See `ProcessPort`."""
        self.halts.append(halt)

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """See `ProcessPort`."""

    def broken(self, error: BaseException) -> None:
        """See `ProcessPort`."""
        raise error
