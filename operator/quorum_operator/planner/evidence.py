"""Decides whether the disk of an incarnation has failed.

Owns the difference between proof (direct evidence, counts at once) and circumstance (an indirect sign, which counts
after the debounce time and only for a replica that does not fetch from the leader; `suspicion.py`). A proof is the
replica's own report, or a lost volume. A circumstance is a current fault of only the data volume. A full disk, a
crash, a drained or cordoned host, an unschedulable pod, and whatever a new member would share (an image, command,
property, Secret or limit) are neither.
"""

from dataclasses import dataclass

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.observed import (
    FailureLatch,
    Incarnation,
    PodFacts,
)

MOUNT_FAILURE_FRESH_S = 180.0
"""The kubelet repeats a failed mount at least every two minutes; an older event is outdated."""

STORAGE_FAILED = "StorageFailed"
REPLICA_REPLACED = "ReplicaReplaced"
HOST_DELETED = "HostDeleted"
VOLUME_NOT_MOUNTED = "VolumeNotMounted"
VOLUME_NOT_USABLE = "PodCannotStart"

CIRCUMSTANCES = frozenset({HOST_DELETED, VOLUME_NOT_MOUNTED, VOLUME_NOT_USABLE})
"""Reasons of a failure mark that can be revoked. All others are permanent."""

REPORTED_BY_THE_PROCESS = frozenset({STORAGE_FAILED, REPLICA_REPLACED})
"""Reasons that only the member's process reports. A new version may report them of every disk."""

_BEFORE_THE_CONTAINER = frozenset({"ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that the disk has failed. `subject`: UID of the pod, or name of the volume, that shows it."""

    reason: str
    evidence: str
    subject: str = ""
    since: float | None = None
    """Time at which the process exited, if known."""


def proof(incarnation: Incarnation) -> Sign | None:
    """Direct evidence of a failed disk, or None."""
    pod, report = incarnation.pod, incarnation.report
    claim, volume = incarnation.claim, incarnation.volume
    if pod is not None and pod.exit_code == ExitCode.STORAGE_FAILED:
        details = pod.exit_message or f"exit code {pod.exit_code}"
        return Sign(STORAGE_FAILED, f"{pod.name}: {details}", since=pod.exit_at)
    if report is not None and report.storage == "failed":
        return Sign(STORAGE_FAILED, report.storage_detail or "reported by the node")
    if volume is not None and volume.phase == "Failed":
        return Sign("VolumeFailed", f"PersistentVolume {volume.name} is Failed")
    if claim is not None and claim.phase == "Lost":
        return Sign("VolumeLost", f"PersistentVolumeClaim {claim.name} lost its volume")
    # A missing claim proves nothing: it may not have been created yet. When a new, empty claim
    # replaces one that was in use, the process reports a new replica UUID.
    if incarnation.uuid is not None and report is not None and report.uuid != incarnation.uuid:
        details = f"the volume held {incarnation.uuid} and now holds {report.uuid}"
        return Sign(REPLICA_REPLACED, details)
    return None


def circumstance(incarnation: Incarnation, now: float) -> Sign | None:
    """An indirect sign, or None. A member whose process answers has its volume."""
    if incarnation.report is not None:
        return None
    return deleted_host(incarnation) or _mount_fails(incarnation.pod, now)


def deleted_host(incarnation: Incarnation) -> Sign | None:
    """The sign that the Node objects of all hosts of a local volume are deleted, or None."""
    volume = incarnation.volume
    if volume is None or not volume.hosts or volume.hosts_exist:
        return None
    details = (
        f"volume {volume.name} is local to {', '.join(volume.hosts)}, whose Node object was deleted"
    )
    return Sign(HOST_DELETED, details, volume.name)


def _mount_fails(pod: PodFacts | None, now: float) -> Sign | None:
    if (
        pod is None
        or pod.deleting
        or pod.ready
        or pod.running
        or pod.exit_code == ExitCode.DISK_FULL
    ):
        return None
    if pod.unusable_volume is not None:
        return Sign(VOLUME_NOT_USABLE, f"{pod.name}: {pod.unusable_volume}", pod.uid)
    failed_at = pod.mount_failed_at
    if failed_at is None or now - failed_at > MOUNT_FAILURE_FRESH_S:
        return None
    if pod.waiting_reason is not None and pod.waiting_reason not in _BEFORE_THE_CONTAINER:
        return None  # the kubelet creates a container only after all volumes are mounted
    details = pod.mount_failure or "the volume can't be mounted"
    return Sign(VOLUME_NOT_MOUNTED, f"{pod.name}: {details}", pod.uid)


def latch(sign: Sign, now: float) -> FailureLatch:
    """The failure mark for the StatefulSet."""
    since = now if sign.since is None else min(sign.since, now)
    return FailureLatch(reason=sign.reason, evidence=sign.evidence, at=now, first_sign_at=since)
