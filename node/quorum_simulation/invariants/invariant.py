"""The shape of an invariant: hooks that a simulation calls, all optional.

Owns the hooks and the exception. Must not know any rule.
"""

from typing import TYPE_CHECKING

from quorum_node.raft.messages import InboundResponse, Response
from quorum_node.raft.outputs import Halt, HaltReason, ReadConfirmed, RoleChanged
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.snapshot_id import SnapshotId

if TYPE_CHECKING:
    from quorum_simulation.clients import Acknowledged
    from quorum_simulation.cluster import Cluster
    from quorum_simulation.host import SimulatedHost
    from quorum_simulation.machine import Rot


class Violation(AssertionError):
    """Something happened that must never happen."""


class Invariant:
    """Override what is of interest; raise Violation."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster

    def started(self, host: "SimulatedHost") -> None: ...

    def refused_to_start(self, host: "SimulatedHost", reason: HaltReason, detail: str) -> None:
        """The process found its disk damaged, or full, and ended."""

    def halted(self, host: "SimulatedHost", output: Halt) -> None:
        """The process ends, by what this replica says or at its request."""

    def rotted(self, host: "SimulatedHost", rot: "Rot") -> None:
        """A bit of one of its files turned over."""

    def appended(
        self, host: "SimulatedHost", data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None: ...

    def truncated(self, host: "SimulatedHost", end_offset: int) -> None: ...

    def persisted(self, host: "SimulatedHost", state: QuorumState) -> None: ...

    def responded(self, host: "SimulatedHost", request_id: int, response: Response) -> None: ...

    def answered(self, host: "SimulatedHost", response: InboundResponse) -> None:
        """An answer of a peer arrives; a frozen process gets it when it thaws."""

    def request_failed(self, host: "SimulatedHost") -> None:
        """A request to a peer was not answered: in vain, too late, or the connection closed."""

    def role(self, host: "SimulatedHost", change: RoleChanged) -> None: ...

    def high_watermark(self, host: "SimulatedHost", offset: int) -> None: ...

    def acknowledged(self, write: "Acknowledged") -> None: ...

    def read_done(
        self, host: "SimulatedHost", started_after_offset: int, output: ReadConfirmed
    ) -> None: ...

    def snapshot_frozen(self, host: "SimulatedHost", id: SnapshotId, data: bytes) -> None:
        """A snapshot is durable under its name, local or downloaded."""

    def log_started(self, host: "SimulatedHost") -> None:
        """The log begins behind a snapshot now: by a reset, or because its prefix was deleted."""

    def applied(self, host: "SimulatedHost") -> None:
        """The host's service has a new state: replayed, or loaded from a snapshot."""

    def image_applied(self, host: "SimulatedHost") -> None:
        """The image of the host's controller has reached another offset."""

    def controller_progressed(self, host: "SimulatedHost") -> None:
        """The host's controller saw a role or a high watermark; no command of it is half way."""

    def finished(self) -> None:
        """After the last step, when the quorum has come to rest."""
