"""`spec.podTemplate` of a MetadataQuorum: settings that a cluster requires for every pod.

Fields that are not set leave the pods unchanged, so an upgrade of the operator restarts none.
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
    """How members are spread over zones; see spec.spread for hosts."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"
    NONE = "None"


class PullSecret(CrdModel):
    """A Secret of the quorum's namespace with the credentials of a registry."""

    name: str = Field(min_length=1, max_length=253)


class EnvironmentVariable(CrdModel):
    """An environment variable, as in a container."""

    name: str = Field(min_length=1, max_length=253, pattern="^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    value: str | None = Field(default=None, max_length=4096)
    value_from: dict[str, Any] | None = Field(default=None, json_schema_extra=_FREE_FORM)


class PodSecurity(CrdModel):
    """User and group ids of the pods. Members never run as root or with additional privileges."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "!has(self.runAsUser) || self.runAsUser > 0",
                (
                    "members do not run as root: leave spec.podTemplate.securityContext.runAsUser out, or set another id "
                    "than 0"
                ),
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
                + ", are reserved for the operator: choose other keys",
            ),
            (
                f"!has(self.annotations) || self.annotations.all(key, !key.startsWith('{_OWN_PREFIX}'))",
                f"annotations that begin with {_OWN_PREFIX} are reserved for the operator: choose other keys",
            ),
        )
    )

    labels: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": _MOST},
        description="Additional labels; a running pod gets them at its next restart.",
    )
    annotations: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": _MOST},
        description="Additional annotations; a running pod gets them at its next restart.",
    )
    image_pull_secrets: list[PullSecret] | None = Field(
        default=None, json_schema_extra={"maxItems": 8}
    )
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="Priority class of the pods; a running pod gets it at its next restart.",
    )
    service_account_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description=(
            "Service account of the pods (default: default). Its token is not mounted. A change restarts the members "
            "one by one."
        ),
    )
    env: list[EnvironmentVariable] | None = Field(
        default=None,
        json_schema_extra={
            "maxItems": _MOST,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        description="Additional environment variables of the node. A change restarts the members one by one.",
    )
    security_context: PodSecurity | None = Field(
        default=None,
        description=(
            "User and group ids to use instead of 65532. The cluster chooses the ids that are left out, so use {} on "
            "OpenShift. A change restarts the members one by one."
        ),
    )
    zone_spread: ZoneSpread | None = Field(
        default=None,
        description=(
            "Whether members must or should run in different zones (topology.kubernetes.io/zone), in addition to "
            "spec.spread. Default: Preferred if all worker nodes had that label when the quorum was formed, otherwise None."
        ),
    )
