"""The effect of certificates on the objects of a quorum: node properties, a volume, and ports. Pure.

Whether a quorum uses TLS is recorded in its identity: at the formation, or as the stage of a migration
(`planner/tls_migration.py`). An upgrade of the operator never mixes members with and without TLS.
"""

from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired.names import ADMIN_PORT, REVOKED_FILE, SECURE_ADMIN_PORT, TLS_PATH
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import MIGRATION, MIGRATION_VALUES, TlsStage, first_stage
from quorum_operator.tls_crd import TlsMode


def stage_of(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> TlsStage:
    """The TLS stage of the members. Before there is an identity it follows from the spec."""
    if not identities:
        return first_stage(spec.tls.mode if spec.tls is not None else None)
    return max(identities, key=lambda each: each.index).tls_stage


def takes_tls_everywhere(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> bool:
    """Whether clients should use TLS: every member accepts it, though clear text may still be accepted."""
    return stage_of(spec, identities) in (TlsStage.DIALLING, TlsStage.CLOSED)


def is_certified(
    spec: MetadataQuorumSpec, identities: tuple[Identity, ...], stage: TlsStage
) -> bool:
    """Whether its members have certificates, or get them before they use them."""
    mode = spec.tls.mode if spec.tls is not None else None
    coming = bool(identities) and mode in (TlsMode.MANAGED, TlsMode.MIGRATING)
    return stage is not TlsStage.PLAIN or coming


def contradiction(spec: MetadataQuorumSpec, identities: tuple[Identity, ...]) -> str | None:
    """The message if the spec asks to go back to clear text after that is no longer possible; else None."""
    mode = spec.tls.mode if spec.tls is not None else None
    if mode is not TlsMode.DISABLED or stage_of(spec, identities) is not TlsStage.CLOSED:
        return None
    return "spec.tls.mode is Disabled, but the members of this quorum accept only TLS, and going back is not supported: set Managed, or create a new MetadataQuorum"


def admin_port(on: bool) -> int:
    """Port of the admin API. `on`: it uses TLS."""
    return SECURE_ADMIN_PORT if on else ADMIN_PORT


def admin_scheme(on: bool) -> str:
    """URL scheme of the admin API. `on`: it uses TLS."""
    return "https" if on else "http"


def revokes(spec: MetadataQuorumSpec) -> bool:
    """Whether members read a file of revoked certificates."""
    return spec.tls is not None and spec.tls.revoked is not None


def properties(*, revoking: bool = False) -> dict[str, str]:
    """Properties of all members. Key and certificate are one file, as for stock Kafka."""
    revoked = {"quorum.ssl.revoked.location": f"{TLS_PATH}/{REVOKED_FILE}"} if revoking else {}
    return {
        **revoked,
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{TLS_PATH}/keystore.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{TLS_PATH}/ca.crt",
        "health.listener": f"http://0.0.0.0:{ADMIN_PORT}",
        # Without an authorizer a certificate would be accepted for every operation, whatever its
        # role.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


def properties_at(stage: TlsStage) -> dict[str, str]:
    """Properties of a member at a stage of the migration. Authorization is impossible while some clients have no
    certificate.
    """
    if stage is TlsStage.PLAIN:
        return {}
    if stage is TlsStage.CLOSED:
        return properties()
    rights = "authorizer.class.name"
    secured = {key: value for key, value in properties().items() if key != rights}
    return {**secured, MIGRATION: MIGRATION_VALUES[stage]}


def volume(member: str) -> dict[str, Any]:
    """The volume with the member's key pair and bundle. All keys of the Secret are mounted, so that a missing one does
    not keep the pod from starting. The pod waits for the Secret itself.
    """
    return {"name": "tls", "secret": {"secretName": f"{member}-tls", "defaultMode": 0o440}}


def mount() -> dict[str, Any]:
    """The mount of the volume. It uses no subPath, because such a mount is never updated."""
    return {"name": "tls", "mountPath": TLS_PATH, "readOnly": True}
