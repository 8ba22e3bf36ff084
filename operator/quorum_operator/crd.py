"""The MetadataQuorum resource: pydantic models of its spec and its status.

Owns the field names, defaults and validation rules of `metadataquorums.metadataquorum.dev`. Knows nothing of the
Kubernetes API or of planning. `crd_document.py` generates the CustomResourceDefinition under `crds/` from these
models. Rules that CEL can express are defined next to their field, so that an invalid resource is rejected when it is
applied. Their messages say what to do.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from quorum_operator.backup_crd import (
    RESTORE_RULES,
    BackupSpec,
    RestoreFromSpec,
)
from quorum_operator.config_crd import rules as config_rules
from quorum_operator.network_policy_crd import NetworkPolicySpec
from quorum_operator.pod_template_crd import PodTemplateSpec
from quorum_operator.tls_crd import TlsSpec
from quorum_operator.update_crd import UpdateSpec

GROUP = "metadataquorum.dev"
VERSION = "v1alpha1"
"""The version that the operator requests and that is stored: the previous operator and definitions know only this
one.
"""
SERVED_VERSIONS = ("v1beta1", VERSION)
"""All served versions. Their schemas are equal, so the API server converts by renaming (strategy None)."""
KIND = "MetadataQuorum"
PLURAL = "metadataquorums"
NODE_IMAGE = "metadataquorum-node:0.1.0"
"""The released image of the nodes; `make release` compares its version with the others."""
MAX_NAME_LENGTH = 40
MAX_REPLICAS = 7
MIN_AWAY_S = 10


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL rule with the message for a violation."""
    return {"rule": expression, "message": message}


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """JSON schema extension that carries CEL rules."""
    return {"x-kubernetes-validations": list(entries)}


FREE_FORM: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Parts of a pod template that are passed on unchanged; the API server validates them in the pod."""

NAME_RULES = (
    rule(
        f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
        f"metadata.name may have at most {MAX_NAME_LENGTH} characters, because pod and volume"
        " names are built from it: choose a shorter name",
    ),
    rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name becomes part of service names: start with a letter, then use lower case"
        " letters, digits and '-' only",
    ),
)


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class ReplacementOrder(StrEnum):
    """Whether a successor joins before or after its predecessor is removed."""

    AUTO = "Auto"
    ADD_FIRST = "AddFirst"
    REMOVE_FIRST = "RemoveFirst"


class DeletionPolicy(StrEnum):
    """What happens to claims when a member is removed or the resource is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Spread(StrEnum):
    """How members are spread over hosts."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"
    NONE = "None"


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class StorageSpec(_Model):
    """The volume of each member. A larger size grows the volumes in place where their class allows it; any other change
    moves the
    members to new volumes, one by one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "isQuantity(self.size) && quantity(self.size).compareTo(quantity('64Mi')) >= 0",
                "spec.storage.size must be a quantity of at least 64Mi, such as 1Gi",
            ),
            rule(
                "!has(self.keepFailedFor) || self.keepFailedFor.matches('^[1-9][0-9]*[smhd]$')",
                "spec.storage.keepFailedFor must be a number with s, m, h or d, such as 72h or 30d. Leave it out to "
                "keep claims"
                " of failed members for ever",
            ),
        )
    )

    size: str = Field(default="1Gi", max_length=32, description="Size of the volume, such as 10Gi.")
    storage_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="Storage class; the cluster's default class when it is left out.",
    )
    keep_failed_for: str | None = Field(
        default=None,
        max_length=8,
        description=(
            "How long claims of failed members are kept, such as 72h or 30d. They are deleted after that time, once "
            "the quorum is healthy. Default: for ever. Claims of members that a recovery has fenced are always kept."
        ),
    )

    @property
    def keep_failed_s(self) -> float | None:
        """The value in seconds; None (also for an invalid value): for ever."""
        text = self.keep_failed_for or ""
        number, unit = text[:-1], text[-1:]
        return float(number) * _SECONDS[unit] if number.isdecimal() and unit in _SECONDS else None


class RepairSpec(_Model):
    """When a member with a failed disk is replaced automatically."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.unreachableAfterSeconds) || self.unreachableAfterSeconds >= {MIN_AWAY_S}",
                f"spec.repair.unreachableAfterSeconds must be at least {MIN_AWAY_S}: a host that"
                " restarts returns within minutes, with all data of its member. Leave it out to wait for Nodes "
                "indefinitely",
            )
        )
    )

    enabled: bool = Field(default=True, description="Replace members whose disk has failed.")
    debounce_seconds: int = Field(
        default=30,
        ge=0,
        le=3600,
        description=(
            "How long an indirect sign (a data volume that can't be mounted, a local volume whose Node object is "
            "deleted) must persist before it counts as a failed disk, from when the operator first observed it. "
            "Direct evidence counts at once."
        ),
    )
    max_replacements_per_hour: int = Field(
        default=6,
        ge=0,
        le=60,
        description=(
            "Maximum number of replacements per hour. After that many failures within the last hour, indirect signs "
            "no longer count as a failed disk."
        ),
    )
    unreachable_after_seconds: int | None = Field(
        default=None,
        le=604800,
        description=(
            "Replace a member after its Node has been not ready or deleted, and the member unreachable, for this "
            "many seconds. Default: the operator waits for the Node, because the disk is assumed to be intact. One "
            "member is replaced at a time, within maxReplacementsPerHour, and none while all Nodes of its zone are "
            "down or no majority confirms a leader."
        ),
    )


class EarlierClaimsPolicy(StrEnum):
    """What happens to claims of an earlier resource of this name."""

    ASK = "Ask"
    LEAVE = "Leave"
    ADOPT = "Adopt"


class EarlierClaimsSpec(_Model):
    """Claims of an earlier resource of this name. Without a decision none of them is used, and no new quorum is
    formed.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.policy == 'Adopt') == has(self.clusterId)",
                "spec.earlierClaims.clusterId is required with policy Adopt, and allowed only with it: it confirms "
                "which cluster's claims are adopted (see the condition ClaimsInDoubt)",
            )
        )
    )

    policy: EarlierClaimsPolicy = Field(
        default=EarlierClaimsPolicy.ASK,
        description=(
            "What to do with claims of an earlier resource of this name. Ask: wait for a decision. Leave: form a new "
            "quorum and keep the old claims. Adopt: continue the cluster clusterId on its claims that are not marked "
            "failed, fenced or removed."
        ),
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description="Cluster id whose claims are adopted, as the condition ClaimsInDoubt prints it.",
    )


class RecoverySpec(_Model):
    """A survivor of a lost quorum, exactly as status.quorumLoss.offer prints it. It confirms to continue from this
    log and to lose committed records that are not in it.
    """

    id: int = Field(ge=1, description="Node id of the survivor.")
    uuid: str = Field(pattern="^[A-Za-z0-9_-]{22}$", description="Its directory id.")
    epoch: int = Field(ge=0, description="Epoch of the last record in its log.")
    end_offset: int = Field(ge=0, description="End offset of its log.")


class MetadataQuorumSpec(_Model):
    """The wanted state."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.replicas >= 1",
                "spec.replicas must be at least 1: a quorum can't be scaled to 0. Set spec.paused to suspend all "
                "changes, or delete the resource (claims are kept by default)",
            ),
            rule(
                f"self.replicas <= {MAX_REPLICAS}",
                f"spec.replicas may be at most {MAX_REPLICAS}: more voters make every commit"
                " slower; use 3 or 5",
            ),
            rule(
                "self.replicas % 2 == 1 || self.allowEvenReplicas",
                "an even number of voters tolerates no more failures than one fewer: use an odd"
                " spec.replicas, or set spec.allowEvenReplicas: true",
            ),
            rule(
                "has(self.clusterId) == has(oldSelf.clusterId) &&"
                " (!has(self.clusterId) || self.clusterId == oldSelf.clusterId)",
                "spec.clusterId is immutable: it is written into every member's log. Create a new MetadataQuorum for "
                "a different cluster id",
            ),
            rule(
                "!has(self.clusterId) || !has(self.earlierClaims) || !has(self.earlierClaims.clusterId)"
                " || self.clusterId == self.earlierClaims.clusterId",
                "spec.earlierClaims.clusterId and spec.clusterId differ: make them equal, or leave one out",
            ),
            *(rule(*each) for each in config_rules()),
            *(rule(*each) for each in RESTORE_RULES),
        )
    )

    replicas: int = Field(default=3, description="Number of voters: 1, 3, 5 or 7.")
    allow_even_replicas: bool = Field(
        default=False,
        description=(
            "Accept an even number of voters. It tolerates no more failures than one voter fewer."
        ),
    )
    image: str = Field(
        default=NODE_IMAGE,
        min_length=1,
        max_length=1024,
        description=(
            "Image of the nodes. The default is the name in the release's archives, without a registry."
        ),
    )
    image_pull_policy: str = Field(
        default="IfNotPresent",
        description="When the kubelet pulls the image.",
        json_schema_extra={"enum": ["Always", "IfNotPresent", "Never"]},
    )
    storage: StorageSpec = Field(default_factory=StorageSpec, json_schema_extra={"default": {}})
    resources: dict[str, Any] | None = Field(
        default=None,
        json_schema_extra=FREE_FORM,
        description=(
            "Resource requests and limits of the node's container. Default for new quorums: requests of 100m CPU and "
            "256Mi memory, no limits. {} sets none."
        ),
    )
    config: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": 128},
        description="Properties of the node, by their names in its configuration file.",
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description="Cluster id of a new quorum; generated by default. Immutable.",
    )
    earlier_claims: EarlierClaimsSpec = Field(
        default_factory=EarlierClaimsSpec, json_schema_extra={"default": {}}
    )
    retire: list[int] | None = Field(
        default=None,
        json_schema_extra={
            "maxItems": 16,
            "x-kubernetes-list-type": "set",
            **rules(
                rule(
                    "self.all(id, id >= 1)",
                    "spec.retire lists node ids, which start at 1: see status.members",
                )
            ),
        },
        description=(
            "Node ids of members to replace by members with new ids. An id is not reused while it is listed here."
        ),
    )
    replacement_order: ReplacementOrder = Field(
        default=ReplacementOrder.AUTO,
        description=(
            "Order of a replacement. Auto: add the new voter before the old one is removed if enough voters are live."
        ),
    )
    paused: bool = Field(
        default=False,
        description=(
            "Suspend all changes: no object is created, changed or deleted (edited labels included), and no voter is "
            "added or removed. Failures are still recorded as annotations, and the status is kept up to date."
        ),
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="Whether the claims of removed members and of a deleted quorum are kept.",
    )
    repair: RepairSpec = Field(default_factory=RepairSpec, json_schema_extra={"default": {}})
    recovery: RecoverySpec | None = Field(
        default=None,
        description=(
            "Confirms that a lost quorum is recovered from this survivor. It takes effect only while it equals "
            "status.quorumLoss.offer, and only once."
        ),
    )
    backup: BackupSpec | None = Field(
        default=None, description="Backups of the metadata: docs/how-to/back-up-and-restore.md."
    )
    restore_from: RestoreFromSpec | None = Field(
        default=None,
        description="Backup that a new quorum starts from: docs/how-to/back-up-and-restore.md.",
    )
    network_policy: NetworkPolicySpec | None = Field(
        default=None, description="Network access to the members: docs/how-to/network-policies.md."
    )
    tls: TlsSpec | None = Field(
        default=None, description="Certificates of the members: docs/how-to/certificates.md."
    )
    update: UpdateSpec | None = Field(
        default=None, description="How updates are rolled out: docs/how-to/upgrade.md."
    )
    pod_template: PodTemplateSpec | None = Field(
        default=None, description="Additions to the pods: docs/how-to/pod-template.md."
    )
    spread: Spread = Field(
        default=Spread.PREFERRED,
        description="Whether members must, should or need not run on different hosts. With Required a planned move needs a host more than there are members: docs/how-to/move-storage.md.",
    )
    affinity: dict[str, Any] | None = Field(
        default=None, description="Affinity of the pods.", json_schema_extra=FREE_FORM
    )
    tolerations: list[dict[str, Any]] | None = Field(
        default=None,
        description="Tolerations of the pods.",
        json_schema_extra={"items": {"type": "object", **FREE_FORM}},
    )
    node_selector: dict[str, str] | None = Field(
        default=None, description="Node labels that the pods require (nodeSelector)."
    )
    termination_grace_period_seconds: int = Field(
        default=30,
        ge=1,
        le=600,
        description="Termination grace period of the pods, including the transfer of leadership.",
    )
