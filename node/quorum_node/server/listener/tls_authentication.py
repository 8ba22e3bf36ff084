"""Authentication at a port with TLS. Each refused client is logged with the reason.

Must not know rights: they are checked for each request.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from quorum_node.configuration.listener_config import TlsConfig
from quorum_node.security.tls.peers import why_close
from quorum_node.security.tls.unreadable import UNREADABLE
from quorum_node.server.listener.port_authentication import PeerIdentity
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.transport.handshake_errors import why_handshake_failed
from quorum_node.server.transport.tls_files import TlsFiles, utc_now
from quorum_node.server.transport.tls_peers import PeerIdentity as ProvenByTls
from quorum_node.server.transport.tls_peers import PeerRejected, client_identity, unreadable


class TlsAuthentication:
    """`name`: the listener's, in callers and messages. `count`: called with the reason of each refusal."""

    def __init__(
        self,
        name: str,
        files: TlsFiles,
        config: TlsConfig,
        reports: RefusedPeers,
        count: Callable[[str], None],
    ) -> None:
        self.name = name
        self._files = files
        self._config = config
        self._reports = reports
        self._count = count
        self.handshake_timeout_seconds = config.handshake_timeout_ms / 1000
        self.handshakes_max = config.handshakes_max
        self.handshakes_rate = config.handshakes_rate
        self.takes_clear_text = False
        self.binds_ids = config.binding
        self.changes = 0

    @property
    def context(self) -> ssl.SSLContext:
        """See `PortAuthentication`: always the newest context."""
        return self._files.server

    def changed(self) -> None:
        """The files have changed: all open connections are checked again."""
        self.changes += 1

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> PeerIdentity | None:
        """See `PortAuthentication`."""
        try:
            return client_identity(
                transport, address, self._files, self.name, self._config.role_rules, utc_now()
            )
        except PeerRejected as error:
            self._report_refused(address, str(error), "certificate")
            return None

    def refused(self, address: str, error: BaseException) -> None:
        """See `PortAuthentication`."""
        self._report_refused(address, why_handshake_failed(error), "handshake")

    def is_still_valid(self, identity: PeerIdentity) -> bool:
        """See `PortAuthentication`."""
        held = cast(ProvenByTls, identity)
        trust = self._files.trust
        if held.certificate is None or trust is None:
            return True
        revoked = self._files.material.revoked
        problem: Exception | None
        try:
            problem = why_close(
                held.certificate, trust, revoked, utc_now(), "it", held.intermediates
            )
        except UNREADABLE as error:
            problem = unreadable(held.certificate, error)
        if problem is not None:
            self._report_refused(
                held.caller.host, f"its connection is closed: {problem}", "certificate"
            )
        return problem is None

    def _report_refused(self, address: str, why: str, reason: str) -> None:
        self._count(reason)
        self._reports.client_refused(self.name, address, why)
