"""The log of a running quorum, read by the node's client, with its errors as PipelineError.

Does not interpret records. Source: `quorum_node.client.committed_log`.
"""

from collections.abc import Sequence

from quorum_node.client import committed_log
from quorum_node.client.connections import Address
from quorum_node.client_tls import ClientTls
from quorum_pipeline.errors import PipelineError


class QuorumUnread(committed_log.CommittedLogError, PipelineError):
    """The quorum, or a part of its log, could not be read."""


class SnapshotDeleted(committed_log.SnapshotDeleted, QuorumUnread):
    """The current leader does not have this snapshot, or no longer has it."""


class Quorum(committed_log.CommittedLog):
    """A client of a quorum, to be closed. `bootstrap`: controller listeners, of which one has to answer. `replicas`: admin APIs that
    share the reading of long spans; None: those of the voters.

    Every call may raise PipelineError.
    """

    error = QuorumUnread
    gone = SnapshotDeleted

    def __init__(
        self,
        bootstrap: Sequence[Address],
        timeout_seconds: float = 30.0,
        tls: ClientTls | None = None,
        replicas: Sequence[Address] | None = None,
    ) -> None:
        self.tls = tls
        self.replicas = None if replicas is None else tuple(replicas)
        super().__init__(bootstrap, timeout_seconds, client_id="quorum-pipeline", tls=tls)


def parsed_addresses(text: str) -> list[Address]:
    """Parse `host:port` addresses that are separated by commas. Raises PipelineError."""
    try:
        return committed_log.parsed_addresses(text)
    except committed_log.CommittedLogError as error:
        raise PipelineError(str(error)) from None
