"""`spec.backup`, `spec.restoreFrom` and `status.backup` of a MetadataQuorum."""

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule

_CLAIM_PATTERN = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_DAY_S = 86_400

RESTORE_RULES = (
    (
        "!has(self.restoreFrom) || has(self.clusterId)",
        (
            "spec.restoreFrom needs spec.clusterId: that of the backup, to which brokers hold on, or a new one together with"
            " spec.restoreFrom.clusterId"
        ),
    ),
    (
        (
            "!has(self.restoreFrom) || !has(self.restoreFrom.clusterId) || !has(self.clusterId)"
            " || self.restoreFrom.clusterId != self.clusterId"
        ),
        (
            "spec.restoreFrom.clusterId is for records that begin a new cluster: leave it out to go on with the cluster of"
            " the backup"
        ),
    ),
    (
        "has(self.restoreFrom) == has(oldSelf.restoreFrom)",
        (
            "spec.restoreFrom says what a new quorum begins with, so it is neither added nor removed later: make a new"
            " MetadataQuorum. Where it stands it does nothing once the quorum has formed"
        ),
    ),
    (
        "!has(self.restoreFrom) || !has(self.earlierClaims) || !has(self.earlierClaims.clusterId)",
        "spec.restoreFrom begins with a backup, and spec.earlierClaims.policy Adopt with the claims: choose one of them",
    ),
)
"""CEL rules of the whole spec, each with its message."""


class BackupSpec(CrdModel):
    """Backups of the metadata, written by a CronJob."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            r"self.schedule.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\\S+( +\\S+){4})$')",
            "spec.backup.schedule must have the five fields of cron, such as '30 2 * * *', or be @hourly, @daily,"
            " @weekly, @monthly or @yearly",
        )
    )

    schedule: str = Field(
        min_length=1, max_length=100, description="When, as in cron: '30 2 * * *' is daily at 2:30."
    )
    time_zone: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Time zone of the schedule, such as Europe/Berlin; that of the cluster when it is left out.",
    )
    claim_name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_CLAIM_PATTERN,
        description="PersistentVolumeClaim in this namespace that gets the backups, in the folder named after the quorum."
        " Several quorums may share one.",
    )
    keep: int = Field(
        default=7,
        ge=1,
        le=1000,
        description="How many backups of this cluster are kept; older ones go after the next was written.",
    )
    overdue_after_seconds: int = Field(
        default=2 * _DAY_S,
        ge=300,
        le=366 * _DAY_S,
        description="Without a good backup for so long the condition BackupCurrent is False, and the alert fires.",
    )


class RestoreFromSpec(CrdModel):
    """What a new quorum begins with: a backup, or the data directory of a replica. It is only read."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            "!self.path.startsWith('/') && !self.path.split('/').exists(each, each == '..')",
            "spec.restoreFrom.path is relative to the volume, without '..': such as demo/backup-20261123T211500Z-0000004711",
        )
    )

    claim_name: str = Field(
        min_length=1,
        max_length=253,
        pattern=_CLAIM_PATTERN,
        description="PersistentVolumeClaim in this namespace: one with backups, with a directory that quorum-pipeline restore"
        " wrote, or that of a member of an older quorum.",
    )
    path: str = Field(
        default="",
        max_length=1024,
        description="Directory on it: a backup, a data directory, or a folder, of which the newest backup of the cluster is"
        " taken. Left out: the root of the volume.",
    )
    cluster_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9_-]+$",
        description="Cluster id of what is restored, where spec.clusterId is a new one: epochs begin anew, and brokers of the"
        " old cluster refuse the new one.",
    )


class BackupStatus(CrdModel):
    """The backups that are known of."""

    last_success_at: str | None = Field(
        default=None, description="When the newest good backup was finished."
    )
    name: str | None = Field(default=None, description="Directory of that backup.")
    end_offset: int | None = Field(
        default=None, description="All records before this offset are in it."
    )
    size_bytes: int | None = Field(default=None, description="Size of its files.")
    last_failure_at: str | None = Field(default=None, description="When a run failed last.")
    last_failure: str | None = Field(default=None, description="Why it failed.")
    failures: int = Field(
        default=0,
        description="Failed runs since the last good backup, of those that Kubernetes keeps.",
    )
    since: str | None = Field(
        default=None,
        description="Since when backups are asked for; without a good one, age counts from here.",
    )
