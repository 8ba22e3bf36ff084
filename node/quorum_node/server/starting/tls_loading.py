"""The certificates of all ports, read and checked at start: what can't be used ends the start.

Owns which ports have some, and what they are called. Nothing of TLS is loaded for a node in clear text.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.security.certificate_identity import Role

if TYPE_CHECKING:
    from quorum_node.server.transport.tls_files import TlsFiles

TlsOfPorts = Mapping[str, "TlsFiles"]
"""By listener; empty for a node in clear text."""


def load_tls(config: NodeConfig) -> TlsOfPorts:
    """What every port presents and trusts. Raises ConfigError."""
    if not config.has_tls:
        return {}
    # A node in clear text spares the memory and the time that these take.
    from quorum_node.security.tls.problems import CertificateProblem
    from quorum_node.server.transport.tls_contexts import Certificates
    from quorum_node.server.transport.tls_files import TlsFiles

    own_id = config.node_id if config.tls.binding else None
    role = Role.MEMBER if config.broker is None else Role.BROKER
    wanted = [
        (each.name, each.ssl, Certificates.AS_CONFIGURED)
        for each in config.listeners
        if each.ssl is not None
    ]
    controllers = None if config.broker is None else config.broker.controllers
    if controllers is not None and controllers.ssl is not None:
        wanted.append((controllers.name, controllers.ssl, Certificates.AS_CONFIGURED))
    admin = config.admin
    if admin.ssl is not None:
        asked = Certificates.AS_CONFIGURED if admin.needs_certificate else Certificates.OPTIONAL
        wanted.append((ADMIN_LISTENER, admin.ssl, asked))
    found = {}
    for name, ssl, asked in wanted:
        try:
            found[name] = TlsFiles(name, ssl, own_id, asked, role=role)
        except CertificateProblem as problem:
            raise ConfigError(f"listener {name} can't speak TLS: {problem}") from None
    return found
