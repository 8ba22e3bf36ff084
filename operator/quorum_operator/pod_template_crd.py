"""`spec.podTemplate` of a MetadataQuorum: what a cluster asks of every pod, and the operator has no view on.

Whatever is left out here leaves the pods as they were without this field, so that no upgrade of the operator restarts one.
"""

from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel

_OWN_PREFIX = "metadataquorum.dev/"
OWN_LABELS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
)
_MOST = 32
_FREE_FORM: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}


def _rules(*rules: tuple[str, str]) -> dict[str, Any]:
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]
    }


class ZoneSpread(StrEnum):
    """How members are kept in different zones, as spec.spread does with hosts."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"
    NONE = "None"


class PullSecret(CrdModel):
    """A Secret of the quorum's namespace with the credentials of a registry."""

    name: str = Field(min_length=1, max_length=253)


class EnvironmentVariable(CrdModel):
    """As in a container."""

    name: str = Field(min_length=1, max_length=253, pattern="^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    value: str | None = Field(default=None, max_length=4096)
    value_from: dict[str, Any] | None = Field(default=None, json_schema_extra=_FREE_FORM)


class PodSecurity(CrdModel):
    """Ids that the pods run with. Members never run as root, and with no more rights than without this field."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "!has(self.runAsUser) || self.runAsUser > 0",
                "members do not run as root: leave spec.podTemplate.securityContext.runAsUser out, or set another id than 0",
            )
        )
    )

    run_as_user: int | None = Field(default=None, ge=0)
    run_as_group: int | None = Field(default=None, ge=0)
    fs_group: int | None = Field(
        default=None, ge=0, description="Group that owns the files of the volume."
    )
    supplemental_groups: list[int] | None = Field(
        default=None, json_schema_extra={"maxItems": _MOST}
    )
    se_linux_options: dict[str, Any] | None = Field(default=None, json_schema_extra=_FREE_FORM)


class PodTemplateSpec(CrdModel):
    """Additions to the members' pods."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                f"!has(self.labels) || self.labels.all(key, !key.startsWith('{_OWN_PREFIX}') && !(key in ["
                + ", ".join(f"'{each}'" for each in OWN_LABELS)
                + "]))",
                f"labels that begin with {_OWN_PREFIX}, and "
                + ", ".join(OWN_LABELS)
                + ", are the operator's, which finds its pods by them: choose other keys",
            ),
            (
                f"!has(self.annotations) || self.annotations.all(key, !key.startsWith('{_OWN_PREFIX}'))",
                f"annotations that begin with {_OWN_PREFIX} are the operator's: choose other keys",
            ),
        )
    )

    labels: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": _MOST},
        description="Further labels; a running pod has them from its next restart on.",
    )
    annotations: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": _MOST},
        description="Further annotations; a running pod has them from its next restart on.",
    )
    image_pull_secrets: list[PullSecret] | None = Field(
        default=None, json_schema_extra={"maxItems": 8}
    )
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="Of the pods; a running pod has it from its next restart on.",
    )
    service_account_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Account that the pods run as, default when it is left out. No token of it is mounted. A change"
        " restarts the members, one by one.",
    )
    env: list[EnvironmentVariable] | None = Field(
        default=None,
        json_schema_extra={
            "maxItems": _MOST,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        description="Further environment variables of the node. A change restarts the members, one by one.",
    )
    security_context: PodSecurity | None = Field(
        default=None,
        description="Ids instead of 65532. What is left out the cluster chooses: {} is what OpenShift wants. A change"
        " restarts the members, one by one.",
    )
    zone_spread: ZoneSpread | None = Field(
        default=None,
        description="Whether members must or should run in different zones (topology.kubernetes.io/zone), beside spec.spread."
        " Left out: None. Only where all hosts have that label.",
    )
