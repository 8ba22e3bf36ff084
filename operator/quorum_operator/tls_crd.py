"""`spec.tls` and `status.tls` of a MetadataQuorum: certificates of the members and of others."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule, cel_rules

_MOST_IDENTITIES = 32
_RESERVED = ("admin", "backup", "operator")


class TlsMode(StrEnum):
    """TLS mode of the quorum."""

    MANAGED = "Managed"
    MIGRATING = "Migrating"
    DISABLED = "Disabled"


class IdentityRole(StrEnum):
    """Role of an additional certificate holder."""

    BROKER = "broker"
    ADMIN = "admin"
    READER = "reader"
    ARCHIVER = "archiver"


DNS_NAME = "^([*][.])?[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$"
"""Letters, digits, hyphens and underscores, with a wildcard in front. The operator accepts a resource with another one, which an earlier
definition let through, and issues all other certificates.
"""


class TlsIdentity(CrdModel):
    """An additional certificate holder with the Secret QUORUM-NAME-tls."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            "(self.role == 'broker') == has(self.nodeId)",
            "a broker's certificate is bound to its node id: set nodeId with role broker, and with no other role",
        )
    )

    name: str = Field(
        min_length=1,
        max_length=20,
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="Name of the identity; part of the Secret's name.",
    )
    role: IdentityRole
    node_id: int | None = Field(
        default=None, ge=0, le=2147483647, description="Node id of a broker."
    )
    dns_names: list[str] | None = Field(
        default=None,
        json_schema_extra={
            "maxItems": 16,
            "items": {"type": "string", "maxLength": 253, "pattern": DNS_NAME},
        },
        description="DNS names of a broker, in ASCII.",
    )


_NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_KEY = "^[-._a-zA-Z0-9]+$"
_SERIAL = "^(serial=)?[0-9A-Fa-f][0-9A-Fa-f:]*$"


class CaSecret(CrdModel):
    """A Secret of the same namespace with an authority: `tls.crt` and `tls.key`."""

    name: str = Field(min_length=1, max_length=253, pattern=_NAME)


class IssuerRef(CrdModel):
    """An issuer of cert-manager, or of another program that processes its Certificates."""

    name: str = Field(min_length=1, max_length=253, pattern=_NAME)
    kind: str = Field(
        default="Issuer",
        max_length=63,
        pattern="^[A-Z][A-Za-z0-9]*$",
        description="Issuer (of the same namespace) or ClusterIssuer.",
    )
    group: str = Field(default="cert-manager.io", max_length=253, pattern=_NAME)


class ObjectKey(CrdModel):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: str = Field(min_length=1, max_length=253, pattern=_NAME)
    key: str


class SecretOrConfigMap(CrdModel):
    """One of the two; the API server refuses other values."""

    secret: ObjectKey | None = None
    config_map: ObjectKey | None = None

    @property
    def kind(self) -> str:
        """Of the object."""
        return "Secret" if self.secret is not None else "ConfigMap"

    @property
    def name(self) -> str:
        """Of the object."""
        return self._place.name

    @property
    def key(self) -> str:
        """In its data."""
        return self._place.key

    @property
    def _place(self) -> ObjectKey:
        found = self.secret or self.config_map
        assert found is not None
        return found


def _one_object(field: str) -> ConfigDict:
    """The rule that each entry of `field` sets either `secret` or `configMap`."""
    return ConfigDict(
        json_schema_extra=cel_rule(
            "has(self.secret) != has(self.configMap)",
            f"an entry of {field} names a Secret or a ConfigMap: set one of secret and configMap",
        )
    )


class TrustedObject(ObjectKey):
    """One key of a Secret or ConfigMap in the same namespace."""

    key: str = Field(
        default="ca.crt",
        min_length=1,
        max_length=253,
        pattern=_KEY,
        description="Key that holds CA certificates in PEM.",
    )


class TrustedCa(SecretOrConfigMap):
    """Source of additional trusted authorities."""

    model_config = _one_object("spec.tls.trustedCAs")

    secret: TrustedObject | None = None
    config_map: TrustedObject | None = None


class RevokedObject(ObjectKey):
    """One key of a Secret or ConfigMap in the same namespace."""

    key: str = Field(
        default="ca.crl",
        min_length=1,
        max_length=253,
        pattern=_KEY,
        description="Holds revocation lists (CRL) in PEM, or serials, one a line.",
    )


class RevokedList(SecretOrConfigMap):
    """Where revocation lists are."""

    model_config = _one_object("spec.tls.revoked.lists")

    secret: RevokedObject | None = None
    config_map: RevokedObject | None = None


class RevokedSpec(CrdModel):
    """Certificates that are refused although they have not expired."""

    serials: list[Annotated[str, Field(max_length=128, pattern=_SERIAL)]] | None = Field(
        default=None,
        json_schema_extra={"maxItems": 1000},
        description="Serials in hexadecimal digits, as openssl x509 -noout -serial prints them, whoever has issued the certificates.",
    )
    lists: list[RevokedList] | None = Field(
        default=None,
        json_schema_extra={"maxItems": 16},
        description="Secrets and ConfigMaps with revocation lists (CRL) in PEM.",
    )


class TlsSpec(CrdModel):
    """Certificates of the members."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            (
                "!has(self.identities) || self.identities.all(each, !(each.name in ["
                + ", ".join(f"'{each}'" for each in _RESERVED)
                + "]))",
                "the names admin, backup and operator are reserved. Choose another name",
            ),
            (
                "!has(self.issuerRef) || !has(self.caSecret)",
                "spec.tls.issuerRef and spec.tls.caSecret are mutually exclusive: set one of them",
            ),
            (
                "!has(self.issuerRef) || (has(self.trustedCAs) && size(self.trustedCAs) > 0)",
                (
                    "with spec.tls.issuerRef name the issuer's authority in spec.tls.trustedCAs: the ca.crt of an issued "
                    "Secret is not trusted"
                ),
            ),
        )
    )

    mode: TlsMode | None = Field(
        default=None,
        description="Managed: the operator makes a certificate authority for the quorum and issues and renews a"
        " certificate for each member. Disabled: members listen in plaintext without authentication. Default: Managed for a"
        " new quorum; an existing quorum keeps its mode. A running quorum can be switched from Disabled to Managed with one"
        " member restart at a time, and back until the last of these restarts begins. Migrating: like Managed, but members"
        " still accept clear text besides TLS, for brokers and clients that need time.",
    )
    identities: list[TlsIdentity] | None = Field(
        default=None,
        json_schema_extra={
            "maxItems": _MOST_IDENTITIES,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        description="Further identities to issue certificates for, besides an administrator.",
    )
    ca_secret: CaSecret | None = Field(
        default=None,
        description=(
            "Secret with your own certificate authority: tls.crt has its certificate, tls.key its key. It signs "
            "instead of an authority made by the operator. To replace it, put another one into the same Secret: all "
            "members trust both before the new one signs."
        ),
    )
    issuer_ref: IssuerRef | None = Field(
        default=None,
        description=(
            "cert-manager issuer that issues the certificates: a Certificate for each member, each of identities, an "
            "administrator and the operator. trustedCAs has to name the issuer's authority."
        ),
    )
    trusted_cas: list[TrustedCa] | None = Field(
        default=None,
        alias="trustedCAs",
        json_schema_extra={"maxItems": 16},
        description=(
            "Authorities that members trust besides the quorum's own, for certificates of brokers and tools. The "
            "identity in such a certificate is accepted, including that of an administrator."
        ),
    )
    revoked: RevokedSpec | None = Field(
        default=None,
        description="Certificates that members refuse although they have not expired. When it is set for the first time, members restart one at a time;"
        " every later change of it, or of an object that it names, reaches them without a restart.",
    )


class TlsStatus(CrdModel):
    """The certificates of a quorum."""

    mode: TlsMode
    stage: str | None = Field(
        default=None,
        description="Stage of the migration from clear text to TLS: Plain, Accepting, Dialling or Closed.",
    )
    authority: int | None = Field(
        default=None, description="Generation of the authority that signs."
    )
    renewal_at: str | None = Field(
        default=None, description="Time at which the next certificate is renewed."
    )
