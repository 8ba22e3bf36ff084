"""The CronJob for backups, and the founder's access to a backup for a restore. Pure.

Its pods are not members and have none of the members' labels. For the network policy they are clients of the quorum,
and they use the certificate of an archiver, which may only read the log.
"""

from typing import Any

from quorum_operator.backup_crd import BackupSpec
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import object_store, pod_template
from quorum_operator.desired.arguments import literal
from quorum_operator.desired.formation_defaults import REQUESTS
from quorum_operator.desired.names import (
    LABEL_BACKUP,
    LABEL_MANAGED_BY,
    LABEL_QUORUM,
    LABEL_ROLE,
    MANAGER,
    RESTORE_PATH,
    TLS_PATH,
    Owner,
    metadata,
)
from quorum_operator.planner.formation_defaults import Defaults, FormationDefault

HOLDER = "backup"
"""Name of the archiver; its certificate is in the Secret QUORUM-backup-tls."""
_TARGET_PATH = "/backup"
_SCRATCH_PATH = "/scratch"
"""For the copy that is uploaded. Its size is that of a member's metadata."""
_SUMMARY = "/dev/termination-log"
_DEADLINE_S = 3600
_TRIES_AGAIN = 2
_KEPT_JOBS = 3
_CONTAINER = "backup"
_NOT_PRUNED = 3
"""Exit code of `quorum-backup take` after a complete backup if older ones can't be deleted. Another attempt would only add
a backup.
"""

Object = dict[str, Any]

_FAILS_AT_ONCE: Object = {
    "action": "FailJob",
    "onExitCodes": {"containerName": _CONTAINER, "operator": "In", "values": [_NOT_PRUNED]},
}


def labels(owner: Owner) -> dict[str, str]:
    """Labels of its Jobs and pods."""
    return {
        LABEL_BACKUP: "true",
        LABEL_QUORUM: owner.name,
        LABEL_ROLE: "client",
        LABEL_MANAGED_BY: MANAGER,
    }


def build(
    owner: Owner,
    spec: MetadataQuorumSpec,
    backup: BackupSpec,
    *,
    secured: bool,
    defaults: Defaults = frozenset(),
) -> Object:
    """The CronJob. `secured`: the members have certificates; `defaults`: of the quorum's formation."""
    schedule: Object = {"schedule": backup.schedule}
    if backup.time_zone is not None:
        schedule["timeZone"] = backup.time_zone
    meta = metadata(owner, owner.backup)
    pod = {
        **pod_template.of_pod(spec),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "containers": [
            {**_container(owner, spec, backup, secured=secured), **_resources(backup, defaults)}
        ],
        "volumes": [
            *_target_volumes(backup),
            *([_tls_volume(owner)] if secured else []),
        ],
    }
    if spec.tolerations is not None:
        pod["tolerations"] = spec.tolerations
    if spec.node_selector is not None:
        pod["nodeSelector"] = spec.node_selector
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": meta,
        "spec": {
            **schedule,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": _DEADLINE_S,
            "successfulJobsHistoryLimit": _KEPT_JOBS,
            "failedJobsHistoryLimit": _KEPT_JOBS,
            "jobTemplate": {
                "metadata": {"labels": labels(owner)},
                "spec": {
                    "backoffLimit": _TRIES_AGAIN,
                    "podFailurePolicy": {"rules": [_FAILS_AT_ONCE]},
                    "activeDeadlineSeconds": _DEADLINE_S,
                    "template": {
                        "metadata": pod_template.with_metadata(spec, labels(owner), {}),
                        "spec": pod,
                    },
                },
            },
        },
    }


def _resources(backup: BackupSpec, defaults: Defaults) -> Object:
    """A ResourceQuota may demand them of every pod of the namespace."""
    if backup.resources is not None:
        return {"resources": backup.resources}
    return {"resources": REQUESTS} if FormationDefault.RESOURCES in defaults else {}


def _target_volumes(backup: BackupSpec) -> list[Object]:
    if backup.object_store is not None:
        return [{"name": "scratch", "emptyDir": {}}, *object_store.volumes(backup.object_store)]
    return [{"name": "backup", "persistentVolumeClaim": {"claimName": backup.claim_name}}]


def _target_mounts(backup: BackupSpec) -> list[Object]:
    if backup.object_store is not None:
        scratch = {"name": "scratch", "mountPath": _SCRATCH_PATH}
        return [scratch, *object_store.mounts(backup.object_store)]
    return [{"name": "backup", "mountPath": _TARGET_PATH}]


def _target_arguments(owner: Owner, backup: BackupSpec) -> list[str]:
    store = backup.object_store
    if store is None:
        return ["--target", f"{_TARGET_PATH}/{owner.name}"]
    arguments = ["--target", literal(store.address(owner.name)), "--scratch", _SCRATCH_PATH]
    arguments += object_store.options(store)
    if store.path_style is not None:
        arguments.append("--path-style" if store.path_style else "--no-path-style")
    return arguments


def _container(
    owner: Owner, spec: MetadataQuorumSpec, backup: BackupSpec, *, secured: bool
) -> Object:
    arguments = ["take", "--bootstrap", owner.bootstrap_servers]
    arguments += [*_target_arguments(owner, backup), "--keep", str(backup.keep)]
    arguments += ["--summary", _SUMMARY]
    if secured:
        arguments += ["--tls", TLS_PATH]
    store = backup.object_store
    return {
        "name": _CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": ["quorum-backup"],
        "args": arguments,
        **({"env": object_store.environment(store)} if store is not None else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *_target_mounts(backup),
            *([{"name": "tls", "mountPath": TLS_PATH, "readOnly": True}] if secured else []),
        ],
    }


def _tls_volume(owner: Owner) -> Object:
    name = f"{owner.name}-{HOLDER}-tls"
    return {"name": "tls", "secret": {"secretName": name, "defaultMode": 0o440}}


def restore_arguments(spec: MetadataQuorumSpec) -> list[str]:
    """Arguments of the founder's process while it may format its directory: options with a value each."""
    source = spec.restore_from
    if source is None:
        return []
    store = source.object_store
    if store is None:
        arguments = ["--restore-from", literal(f"{RESTORE_PATH}/{source.path}".rstrip("/"))]
    else:
        arguments = ["--restore-from", literal(store.address())]
        arguments += object_store.options(store, "--restore-")
        if store.path_style is not None:
            arguments += ["--restore-path-style", str(store.path_style).lower()]
    return (
        arguments
        if source.cluster_id is None
        else [*arguments, "--restore-cluster-id", source.cluster_id]
    )


def restore_environment(spec: MetadataQuorumSpec) -> list[Object]:
    """Environment variables of that process: the credentials of an object store."""
    source = spec.restore_from
    if source is None or source.object_store is None:
        return []
    return object_store.environment(source.object_store)


def restore_volume(spec: MetadataQuorumSpec) -> list[Object]:
    """The volume with the backup in the founder's pod, or with the CA of the object store."""
    source = spec.restore_from
    if source is None:
        return []
    if source.object_store is not None:
        return object_store.volumes(source.object_store)
    claim = {"claimName": source.claim_name, "readOnly": True}
    return [{"name": "restore", "persistentVolumeClaim": claim}]


def restore_mount(spec: MetadataQuorumSpec) -> list[Object]:
    """The mount of that volume."""
    source = spec.restore_from
    if source is None:
        return []
    if source.object_store is not None:
        return object_store.mounts(source.object_store)
    return [{"name": "restore", "mountPath": RESTORE_PATH, "readOnly": True}]
