"""Requests to other nodes before this node runs: one blocking connection for each, by TLS if members use it."""

import socket
from collections.abc import Callable

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.host_port import HostPort
from quorum_node.server.starting.tls_loading import TlsOfPorts

Dial = Callable[[HostPort, float], socket.socket]
"""Connects; the timeout in seconds also holds for the following reads and writes. Raises OSError."""


def dial_in_clear_text(server: HostPort, timeout_seconds: float) -> socket.socket:
    """See `Dial`."""
    return socket.create_connection((server.host, server.port), timeout_seconds)


def dial_as(config: NodeConfig, tls: TlsOfPorts) -> Dial:
    """Connect as the members of this node's quorum do."""
    files = tls.get(config.quorum_listener)
    if files is None:
        return dial_in_clear_text
    from quorum_node.server.transport.tls_files import utc_now
    from quorum_node.server.transport.tls_peers import PeerRejected, chain_of, check_dialled

    def dial(server: HostPort, timeout_seconds: float) -> socket.socket:
        plain = dial_in_clear_text(server, timeout_seconds)
        try:
            connection = files.client.wrap_socket(plain, server_hostname=server.host)
        except (OSError, ValueError):
            plain.close()
            raise
        try:
            shown = chain_of(connection, files.trust)
            check_dialled(shown, server.host, None, files, utc_now())
        except PeerRejected as error:
            connection.close()
            raise ConnectionError(f"the peer at {server} {error}") from None
        return connection

    return dial
