"""The gate of a port that speaks TLS: one line in the log for each who is not let in, and why.

Must not know rights: who is let in may ask, and is refused then.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from quorum_node.configuration.listener_config import TlsConfig
from quorum_node.security.tls.peers import why_close
from quorum_node.server.listener.gate import Proven
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.transport.handshake_words import why_handshake_failed
from quorum_node.server.transport.tls_files import TlsFiles, utc_now
from quorum_node.server.transport.tls_peers import Proven as ProvenByTls
from quorum_node.server.transport.tls_peers import Unwelcome, client_proven


class TlsGate:
    """`name`: of the listener, as callers and messages have it. `count`: told the reason of each that is not let in."""

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
        """See `Gate`: always the newest."""
        return self._files.server

    def changed(self) -> None:
        """The files are others now: whoever is here is asked again."""
        self.changes += 1

    def prove(self, transport: asyncio.BaseTransport, address: str) -> Proven | None:
        """See `Gate`."""
        try:
            return client_proven(
                transport, address, self._files, self.name, self._config.role_rules, utc_now()
            )
        except Unwelcome as error:
            self._tell(address, str(error), "certificate")
            return None

    def refused(self, address: str, error: BaseException) -> None:
        """See `Gate`."""
        self._tell(address, why_handshake_failed(error), "handshake")

    def may_stay(self, proven: Proven) -> bool:
        """See `Gate`."""
        held = cast(ProvenByTls, proven)
        trust = self._files.trust
        if held.certificate is None or trust is None:
            return True
        revoked = self._files.material.revoked
        problem = why_close(held.certificate, trust, revoked, utc_now(), "it")
        if problem is not None:
            self._tell(held.caller.host, f"its connection ends: {problem}", "certificate")
        return problem is None

    def _tell(self, address: str, why: str, reason: str) -> None:
        self._count(reason)
        self._reports.client_refused(self.name, address, why)
