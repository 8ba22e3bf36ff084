"""The principal of a connection, as Kafka's default principal builder derives it from a handshake. PURE."""

from quorum_node.security.caller import ANONYMOUS_PRINCIPAL
from quorum_node.security.principals.mapping_rules import MappingRules
from quorum_node.security.principals.x500 import subject_text

USER = "User"


def principal_of(certificate: bytes | None, rules: MappingRules) -> str:
    """`User:` and a name. None: a client without a certificate (`ssl.client.auth` is not
    `required`), so anonymous.

    Raises NoRuleFits, and MalformedDer for an invalid certificate: the connection has to be closed
    then.
    """
    if certificate is None:
        return ANONYMOUS_PRINCIPAL
    return f"{USER}:{rules.name_of(subject_text(certificate))}"
