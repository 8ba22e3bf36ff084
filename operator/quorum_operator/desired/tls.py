"""What certificates change in the objects of a quorum: properties of its nodes, a volume, and ports. Pure.

Whether a quorum has certificates stands in its identity, which was written when it formed: neither an upgrade of the operator nor
a change of the spec makes members that speak TLS and members that do not.
"""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import ADMIN_PORT, SECURE_ADMIN_PORT, TLS_PATH
from quorum_operator.planner.observed import Identity
from quorum_operator.tls_crd import TlsMode

DEFAULT_MODE = TlsMode.MANAGED
"""Of new quorums whose spec says nothing."""


def asked_mode(spec: MetadataQuorumSpec) -> TlsMode:
    """What a new quorum is formed with."""
    asked = spec.tls.mode if spec.tls is not None else None
    return asked or DEFAULT_MODE


def is_on(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> bool:
    """Whether the members have certificates. Before there is an identity the spec tells."""
    if not identities:
        return asked_mode(spec) is TlsMode.MANAGED
    return max(identities, key=lambda each: each.index).tls


def contradiction(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> str | None:
    """The spec asks for another mode than the quorum was formed with: what to do. None if it does not."""
    asked = spec.tls.mode if spec.tls is not None else None
    formed = TlsMode.MANAGED if is_on(spec, identities) else TlsMode.DISABLED
    if asked is None or asked is formed:
        return None
    return (
        f"spec.tls.mode is {asked.value}, and this quorum was formed with {formed.value}, which holds: write {formed.value},"
        " or make a new MetadataQuorum"
    )


def admin_port(on: bool) -> int:
    """Of the admin API."""
    return SECURE_ADMIN_PORT if on else ADMIN_PORT


def admin_scheme(on: bool) -> str:
    """Of the admin API."""
    return "https" if on else "http"


def properties() -> dict[str, str]:
    """Of all members. The key and the certificate are one file, as stock Kafka reads them."""
    return {
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{TLS_PATH}/keystore.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{TLS_PATH}/ca.crt",
        "health.listener": f"http://0.0.0.0:{ADMIN_PORT}",
        # Else a certificate would open every door of the quorum, whatever its role.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


def volume(member: str) -> dict[str, Any]:
    """The member's pair and what it trusts. As a whole: a key that is missing must not keep the pod from starting."""
    return {"name": "tls", "secret": {"secretName": f"{member}-tls", "defaultMode": 0o440}}


def mount() -> dict[str, Any]:
    """Where the volume is; without a subPath, which is never renewed."""
    return {"name": "tls", "mountPath": TLS_PATH, "readOnly": True}
