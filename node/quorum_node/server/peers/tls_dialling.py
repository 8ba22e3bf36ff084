"""TLS connections to other nodes: with this node's certificate, and only to the expected node."""

import asyncio
import ssl
from collections.abc import Callable

from quorum_node.configuration.listener_config import TlsConfig
from quorum_node.host_port import HostPort
from quorum_node.security.certificate_identity import Role
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.peers.dialling import ClosedEarly, WrongPeer
from quorum_node.server.transport.handshake_errors import why_handshake_failed
from quorum_node.server.transport.tls_files import TlsFiles, utc_now
from quorum_node.server.transport.tls_peers import PeerRejected, check_dialled, peer_chain

_CLOSED_EARLY = "it closes the connection before it answers; it may not accept this node's certificate: see its log"


class TlsDialling:
    """`node_at`: the id of the voter or broker at this host and port, None if only the address is known. `count`: called with the reason of
    a failure.
    """

    def __init__(
        self,
        files: TlsFiles,
        config: TlsConfig,
        reports: RefusedPeers,
        node_at: Callable[[str, int], int | None],
        count: Callable[[str], None] = lambda reason: None,
        role: Role = Role.MEMBER,
    ) -> None:
        self._role = role
        self._files = files
        self._reports = reports
        self._node_at = node_at
        self._count = count
        self.handshake_timeout_seconds = config.handshake_timeout_ms / 1000

    @property
    def context(self) -> ssl.SSLContext:
        """The newest context."""
        return self._files.client

    def check(self, transport: asyncio.BaseTransport, host: str, port: int) -> float:
        """See `Dialling`."""
        try:
            node_id, shown = self._node_at(host, port), peer_chain(transport, self._files.trust)
            return check_dialled(shown, host, node_id, self._files, utc_now(), self._role)
        except PeerRejected as error:
            raise WrongPeer(f"who answers {error}") from None

    def failed(self, host: str, port: int, error: BaseException) -> None:
        """Report a failure of TLS or of the peer's identity. Unreachable peers are reported elsewhere."""
        if isinstance(error, WrongPeer):
            self._tell(host, port, "certificate", str(error))
        elif isinstance(error, ClosedEarly):
            self._tell(host, port, "closed", _CLOSED_EARLY)
        elif isinstance(error, ssl.SSLError):
            self._tell(host, port, "handshake", why_handshake_failed(error))

    def _tell(self, host: str, port: int, reason: str, why: str) -> None:
        self._count(reason)
        self._reports.server_refused(str(HostPort(host, port)), why)
