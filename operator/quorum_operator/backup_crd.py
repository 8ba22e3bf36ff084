"""`spec.backup`, `spec.restoreFrom` and `status.backup` of a MetadataQuorum."""

from typing import Any

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, WrittenTime, cel_rules
from quorum_operator.object_store_crd import ObjectStoreSpec

_CLAIM_PATTERN = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_DAY_S = 86_400

RESTORE_RULES = (
    (
        "!has(self.restoreFrom) || has(self.clusterId)",
        (
            "spec.restoreFrom needs spec.clusterId: the cluster id of the backup, which brokers keep using, or a new "
            "one together with spec.restoreFrom.clusterId"
        ),
    ),
    (
        (
            "!has(self.restoreFrom) || !has(self.restoreFrom.clusterId) || !has(self.clusterId)"
            " || self.restoreFrom.clusterId != self.clusterId"
        ),
        (
            "spec.restoreFrom.clusterId is only for a restore under a new cluster id: leave it out to keep the "
            "cluster id of the backup"
        ),
    ),
    (
        "has(self.restoreFrom) == has(oldSelf.restoreFrom)",
        (
            "spec.restoreFrom can't be added or removed after creation: create a new MetadataQuorum. It has no effect "
            "once the quorum has formed"
        ),
    ),
    (
        "!has(self.restoreFrom) || !has(self.earlierClaims) || !has(self.earlierClaims.clusterId)",
        (
            "spec.restoreFrom starts from a backup and spec.earlierClaims.policy Adopt from existing claims: set only "
            "one of them"
        ),
    ),
)
"""CEL rules of the whole spec, each with its message."""


class BackupSpec(CrdModel):
    """Backups of the metadata, written by a CronJob."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            (
                r"self.schedule.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\\S+( +\\S+){4})$')",
                (
                    "spec.backup.schedule must have the five fields of cron, such as '30 2 * * *', or be @hourly, @daily,"
                    " @weekly, @monthly or @yearly"
                ),
            ),
            (
                "has(self.claimName) != has(self.objectStore)",
                "spec.backup needs one target: set either spec.backup.claimName or spec.backup.objectStore",
            ),
        )
    )

    schedule: str = Field(
        min_length=1, max_length=100, description="Cron schedule: '30 2 * * *' is daily at 2:30."
    )
    time_zone: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Time zone of the schedule, such as Europe/Berlin; the cluster's time zone by default.",
    )
    claim_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=_CLAIM_PATTERN,
        description=(
            "PersistentVolumeClaim in this namespace that backups are written to, in a folder named after the "
            "quorum. Several quorums may share one."
        ),
    )
    object_store: ObjectStoreSpec | None = Field(
        default=None,
        description=(
            "Object store that backups are written to instead of a claim, in a folder named after the quorum. "
            "Several quorums may share one."
        ),
    )
    resources: dict[str, Any] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        description=(
            "Resource requests and limits of the backup's container. Default for quorums that were formed with the "
            "default of spec.resources: requests of 100m CPU and 256Mi memory, no limits. {} sets none."
        ),
    )
    keep: int = Field(
        default=7,
        ge=1,
        le=1000,
        description=(
            "Number of backups of this cluster to keep. Older ones are deleted after the next backup is written."
        ),
    )
    overdue_after_seconds: int = Field(
        default=2 * _DAY_S,
        ge=300,
        le=366 * _DAY_S,
        description=(
            "Age of the last successful backup in seconds above which the condition BackupCurrent is False and the "
            "alert fires."
        ),
    )


class RestoreFromSpec(CrdModel):
    """Source of a new quorum: a backup, or the data directory of a replica. It is only read."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            (
                "!self.path.startsWith('/') && !self.path.split('/').exists(each, each == '..')",
                (
                    "spec.restoreFrom.path is relative to the volume, without '..': such as "
                    "demo/backup-20261123T211500Z-0000004711"
                ),
            ),
            (
                "has(self.claimName) != has(self.objectStore)",
                (
                    "spec.restoreFrom needs one source: set either spec.restoreFrom.claimName or "
                    "spec.restoreFrom.objectStore"
                ),
            ),
            (
                "!has(self.objectStore) || self.path == ''",
                (
                    "spec.restoreFrom.path is only for a claim: write the folder or the backup into "
                    "spec.restoreFrom.objectStore.prefix"
                ),
            ),
        )
    )

    claim_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=_CLAIM_PATTERN,
        description=(
            "PersistentVolumeClaim in this namespace that holds backups, a directory written by quorum-pipeline "
            "restore, or the data of a member of an older quorum."
        ),
    )
    object_store: ObjectStoreSpec | None = Field(
        default=None,
        description=(
            "Object store that holds backups, instead of a claim. Its prefix names a backup, or a folder whose "
            "newest backup of the cluster is used."
        ),
    )
    path: str = Field(
        default="",
        max_length=1024,
        description=(
            "Directory on the volume: a backup, a data directory, or a folder whose newest backup of the cluster is "
            "used. Default: the root of the volume."
        ),
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description=(
            "Cluster id of the backup, if spec.clusterId is a new one. Epochs then start again from the beginning, "
            "and brokers of the old cluster reject the new quorum."
        ),
    )


class BackupStatus(CrdModel):
    """Status of the backups."""

    last_success_at: WrittenTime | None = Field(
        default=None, description="Time at which the newest successful backup finished."
    )
    name: str | None = Field(default=None, description="Directory of that backup.")
    end_offset: int | None = Field(
        default=None, description="The backup contains all records before this offset."
    )
    size_bytes: int | None = Field(default=None, description="Size of its files.")
    last_failure_at: WrittenTime | None = Field(
        default=None, description="Time of the last failed run."
    )
    last_failure: str | None = Field(default=None, description="Why it failed.")
    failures: int = Field(
        default=0,
        description="Number of failed runs since the last successful backup, among the Jobs that Kubernetes keeps.",
    )
    since: WrittenTime | None = Field(
        default=None,
        description=(
            "Time since which backups are configured. Without a successful backup, its age is counted from here."
        ),
    )
