"""What certificates change in the objects of a quorum: properties of its nodes, a volume, and ports. Pure.

Whether a quorum has certificates stands in its identity: in what was written when it formed, or in the stage that it has come to
since (`planner/tls_migration.py`). No upgrade of the operator makes members that speak TLS and members that do not.
"""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import ADMIN_PORT, REVOKED_FILE, SECURE_ADMIN_PORT, TLS_PATH
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import MIGRATION, TOLD, TlsStage, first_stage
from quorum_operator.tls_crd import TlsMode


def stage_of(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> TlsStage:
    """What the members are told. Before there is an identity the spec tells."""
    if not identities:
        return first_stage(spec.tls.mode if spec.tls is not None else None)
    return max(identities, key=lambda each: each.index).tls_stage


def takes_tls_everywhere(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> bool:
    """Whether a client is to come by TLS: every member takes it, and as long as some client comes in clear text the ports stay open."""
    return stage_of(spec, identities) in (TlsStage.DIALLING, TlsStage.CLOSED)


def is_certified(
    spec: MetadataQuorumSpec, identities: tuple[Identity, ...], stage: TlsStage
) -> bool:
    """Whether its members have certificates, or are to get some before they are told of them."""
    asked = spec.tls.mode if spec.tls is not None else None
    coming = bool(identities) and asked in (TlsMode.MANAGED, TlsMode.MIGRATING)
    return stage is not TlsStage.PLAIN or coming


def contradiction(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> str | None:
    """The spec asks for a way back that there is not: what to do. None if it does not."""
    asked = spec.tls.mode if spec.tls is not None else None
    if asked is not TlsMode.DISABLED or stage_of(spec, identities) is not TlsStage.CLOSED:
        return None
    return (
        "spec.tls.mode is Disabled, and the members of this quorum take TLS alone, from which there is no way back: write"
        " Managed, or make a new MetadataQuorum"
    )


def admin_port(on: bool) -> int:
    """Of the admin API."""
    return SECURE_ADMIN_PORT if on else ADMIN_PORT


def admin_scheme(on: bool) -> str:
    """Of the admin API."""
    return "https" if on else "http"


def revokes(spec: MetadataQuorumSpec) -> bool:
    """Whether members read a file of revoked certificates."""
    return spec.tls is not None and spec.tls.revoked is not None


def properties(*, revoking: bool = False) -> dict[str, str]:
    """Of all members. The key and the certificate are one file, as stock Kafka reads them. `revoking`: they read who is revoked."""
    revoked = {"quorum.ssl.revoked.location": f"{TLS_PATH}/{REVOKED_FILE}"} if revoking else {}
    return {
        **revoked,
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{TLS_PATH}/keystore.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{TLS_PATH}/ca.crt",
        "health.listener": f"http://0.0.0.0:{ADMIN_PORT}",
        # Else a certificate would open every door of the quorum, whatever its role.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


def properties_at(stage: TlsStage) -> dict[str, str]:
    """Of a member at a stage of the migration. Nobody can be asked for a right as long as some come without a certificate."""
    if stage is TlsStage.PLAIN:
        return {}
    if stage is TlsStage.CLOSED:
        return properties()
    rights = "authorizer.class.name"
    secured = {key: value for key, value in properties().items() if key != rights}
    return {**secured, MIGRATION: TOLD[stage]}


def volume(member: str) -> dict[str, Any]:
    """The member's pair and what it trusts. As a whole: a key that is missing must not keep the pod from starting."""
    return {"name": "tls", "secret": {"secretName": f"{member}-tls", "defaultMode": 0o440}}


def mount() -> dict[str, Any]:
    """Where the volume is; without a subPath, which is never renewed."""
    return {"name": "tls", "mountPath": TLS_PATH, "readOnly": True}
