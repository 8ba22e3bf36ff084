"""Reads and checks the certificates of all ports at the start; a problem stops the start.

Owns which ports have certificates, and their names. A node in clear text loads no TLS code.
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
    """The certificate and the trusted authorities of every port. Raises ConfigError."""
    if not config.has_tls:
        return {}
    # A node in clear text saves the memory and the time of loading these modules.
    from quorum_node.security.tls.problems import CertificateProblem
    from quorum_node.server.transport.tls_contexts import Certificates
    from quorum_node.server.transport.tls_files import TlsFiles

    own_id = config.node_id if config.tls.binding else None
    role = Role.MEMBER if config.is_member else Role.BROKER
    of_broker = {each.name for each in config.broker_listeners}
    wanted = [
        (each.name, each.ssl, Certificates.AS_CONFIGURED)
        for each in config.listeners
        if each.ssl is not None
    ]
    controllers = None if config.is_member or config.broker is None else config.broker.controllers
    if controllers is not None and controllers.ssl is not None:
        wanted.append((controllers.name, controllers.ssl, Certificates.AS_CONFIGURED))
    admin = config.admin
    if admin.ssl is not None:
        asked = Certificates.AS_CONFIGURED if admin.needs_certificate else Certificates.OPTIONAL
        wanted.append((ADMIN_LISTENER, admin.ssl, asked))
    found = {}
    for name, ssl, asked in wanted:
        try:
            shown = Role.BROKER if name in of_broker else role
            found[name] = TlsFiles(name, ssl, own_id, asked, role=shown)
        except CertificateProblem as problem:
            raise ConfigError(f"listener {name} can't use TLS: {problem}") from None
    return found
