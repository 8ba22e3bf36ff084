"""The MetadataQuorum resource: pydantic models of its spec and its status.

Owns the field names, defaults and validation rules of `metadataquorums.metadataquorum.dev`
(v1alpha1). Knows nothing of the Kubernetes API or of planning. `crd_document.py` turns these models
into the CustomResourceDefinition that is checked in under `crds/`.

Rules that can be said in CEL stand here, next to the field they guard, so that a wrong resource is
refused when it is applied. Their messages say what to do, not only what is wrong.
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
"""That the operator asks for, and that is stored: the operator and the definitions of the version before know no other."""
SERVED_VERSIONS = ("v1beta1", VERSION)
"""All with one schema, so that the API server converts by renaming alone (strategy None)."""
KIND = "MetadataQuorum"
PLURAL = "metadataquorums"
MAX_NAME_LENGTH = 40
MAX_REPLICAS = 7
MIN_AWAY_S = 10


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL rule and what to say to who breaks it."""
    return {"rule": expression, "message": message}


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """JSON schema extension that carries CEL rules."""
    return {"x-kubernetes-validations": list(entries)}


FREE_FORM: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Parts of a pod template that are handed on unread; the API server checks them in the pod."""

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
    """Whether a successor joins before or after its predecessor leaves (design, Safety)."""

    AUTO = "Auto"
    ADD_FIRST = "AddFirst"
    REMOVE_FIRST = "RemoveFirst"


class DeletionPolicy(StrEnum):
    """What becomes of the claims when a member leaves or the resource is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Spread(StrEnum):
    """How members are kept on different hosts."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"
    NONE = "None"


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class StorageSpec(_Model):
    """The volume of each member. A larger size grows the volumes in place where their class allows it; any other change moves the
    members to new volumes, one by one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "isQuantity(self.size) && quantity(self.size).compareTo(quantity('64Mi')) >= 0",
                "spec.storage.size must be a quantity of at least 64Mi, such as 1Gi",
            ),
            rule(
                "!has(self.keepFailedFor) || self.keepFailedFor.matches('^[1-9][0-9]*[smhd]$')",
                "spec.storage.keepFailedFor must be a number with s, m, h or d, such as 72h or 30d. Leave it out to keep claims"
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
        description="For how long claims of members that have failed are kept, such as 72h or 30d; then they are deleted, once the"
        " quorum is whole. Left out: for ever. What a recovery has put aside is kept in any case.",
    )

    @property
    def keep_failed_s(self) -> float | None:
        """In seconds; None: for ever, as is what nobody can read."""
        text = self.keep_failed_for or ""
        number, unit = text[:-1], text[-1:]
        return float(number) * _SECONDS[unit] if number.isdecimal() and unit in _SECONDS else None


class RepairSpec(_Model):
    """When a member whose disk died is replaced without being asked."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.unreachableAfterSeconds) || self.unreachableAfterSeconds >= {MIN_AWAY_S}",
                f"spec.repair.unreachableAfterSeconds must be at least {MIN_AWAY_S}: a host that"
                " restarts is back within minutes, and its member with all its data. Leave it out to"
                " wait for hosts, however long they stay away",
            )
        )
    )

    enabled: bool = Field(default=True, description="Replace members whose disk failed.")
    debounce_seconds: int = Field(
        default=30,
        ge=0,
        le=3600,
        description="How long a circumstance (a data volume that can't be mounted, a local volume whose"
        " Node object is deleted) must last before it counts as a failed disk, from when the operator"
        " saw it first. Proof counts at once.",
    )
    max_replacements_per_hour: int = Field(
        default=6,
        ge=0,
        le=60,
        description="Upper bound of replacements within one hour. With as many failures in the last"
        " hour no circumstance counts as a failed disk.",
    )
    unreachable_after_seconds: int | None = Field(
        default=None,
        le=604800,
        description="Replace a member whose host (Node) is not ready or gone, and that nobody hears, after so"
        " many seconds. Left out: it is waited for, since its disk is held to be sound. One member at a time,"
        " none while its whole zone is away or no majority confirms a leader; maxReplacementsPerHour counts.",
    )


class EarlierClaimsPolicy(StrEnum):
    """What becomes of claims that an earlier resource of this name has left."""

    ASK = "Ask"
    LEAVE = "Leave"
    ADOPT = "Adopt"


class EarlierClaimsSpec(_Model):
    """Claims that an earlier resource of this name has left. Without a decision none of them is run again, and nothing new is
    founded beside them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(self.policy == 'Adopt') == has(self.clusterId)",
                "spec.earlierClaims.clusterId belongs to policy Adopt, and only to it: it confirms whose claims are run"
                " again (see the condition ClaimsInDoubt)",
            )
        )
    )

    policy: EarlierClaimsPolicy = Field(
        default=EarlierClaimsPolicy.ASK,
        description="Ask waits for a decision. Leave forms a new quorum beside them. Adopt goes on with the cluster"
        " clusterId on its claims that are not marked failed, fenced or removed.",
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description="Cluster id whose claims are run again, as the condition ClaimsInDoubt prints it.",
    )


class RecoverySpec(_Model):
    """A survivor of a lost quorum, exactly as status.quorumLoss.offer prints it.

    In the spec it says: go on from this log, and give up whatever is committed and not in it.
    """

    id: int = Field(ge=1, description="Node id of the survivor.")
    uuid: str = Field(pattern="^[A-Za-z0-9_-]{22}$", description="Its directory id.")
    epoch: int = Field(ge=0, description="Epoch of the last record in its log.")
    end_offset: int = Field(ge=0, description="Where its log ends.")


class MetadataQuorumSpec(_Model):
    """What is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.replicas >= 1",
                "spec.replicas must be at least 1: a quorum can't be scaled to 0. Set spec.paused"
                " to stop all moves, or delete the resource (claims are kept by default)",
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
                "spec.clusterId is immutable: it is written into every member's log. Make a new"
                " MetadataQuorum for another cluster id",
            ),
            rule(
                "!has(self.clusterId) || !has(self.earlierClaims) || !has(self.earlierClaims.clusterId)"
                " || self.clusterId == self.earlierClaims.clusterId",
                "spec.earlierClaims.clusterId is another cluster than spec.clusterId: name the same, or leave one out",
            ),
            *(rule(*each) for each in config_rules()),
            *(rule(*each) for each in RESTORE_RULES),
        )
    )

    replicas: int = Field(default=3, description="Number of voters: 1, 3, 5 or 7.")
    allow_even_replicas: bool = Field(
        default=False, description="Accept an even number of voters, on your own responsibility."
    )
    image: str = Field(
        default="metadataquorum/node:latest", min_length=1, max_length=1024, description="Image."
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
        description="Resource requests and limits of the node's container.",
    )
    config: dict[str, str] | None = Field(
        default=None,
        json_schema_extra={"maxProperties": 64},
        description="Properties of the node, by their names in its configuration file.",
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description="Cluster id to form with; generated when it is left out. Immutable.",
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
        description="Node ids to swap for members with fresh ids. These ids are not used again"
        " while they stand here.",
    )
    replacement_order: ReplacementOrder = Field(
        default=ReplacementOrder.AUTO,
        description="Auto adds a successor first whenever enough voters are alive.",
    )
    paused: bool = Field(
        default=False,
        description=(
            "Stop all moves: no object is made, changed or deleted, edited labels included, and no voter moved."
            " What is known of failures and claims is still annotated on them, and the status stays current."
        ),
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="Whether claims of members that left, and of a deleted quorum, are kept.",
    )
    repair: RepairSpec = Field(default_factory=RepairSpec, json_schema_extra={"default": {}})
    recovery: RecoverySpec | None = Field(
        default=None,
        description="Confirms that a lost quorum is recovered from this survivor. Anything but what"
        " status.quorumLoss.offer says at that moment does nothing, nor does it a second time.",
    )
    backup: BackupSpec | None = Field(
        default=None, description="Backups of the metadata: docs/how-to/back-up-and-restore.md."
    )
    restore_from: RestoreFromSpec | None = Field(
        default=None,
        description="What a new quorum begins with: docs/how-to/back-up-and-restore.md.",
    )
    network_policy: NetworkPolicySpec | None = Field(
        default=None, description="Who reaches the members: docs/how-to/network-policies.md."
    )
    tls: TlsSpec | None = Field(
        default=None, description="Certificates of the members: docs/how-to/certificates.md."
    )
    update: UpdateSpec | None = Field(
        default=None, description="How updates reach the members: docs/how-to/upgrade.md."
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
        default=None, description="Labels of the hosts that the pods may run on."
    )
    termination_grace_period_seconds: int = Field(
        default=30,
        ge=1,
        le=600,
        description="How long a pod may take to stop, its hand-over of leadership included.",
    )
