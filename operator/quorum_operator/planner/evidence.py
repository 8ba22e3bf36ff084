"""Is this incarnation's disk dead?

Owns the difference between proof (acts at once) and circumstance (acts after the debounce, and only
on a voter that the leader no longer hears). A full disk, a crash, a drained or cordoned host, a pod
that can't be scheduled or an image that can't be pulled are neither.
"""

from dataclasses import dataclass

from quorum_operator.planner.observed import (
    EXIT_DISK_FULL,
    EXIT_STORAGE_FAILED,
    FailureLatch,
    Incarnation,
    PodFacts,
)

MOUNT_FAILURE_FRESH_S = 180.0
"""The kubelet repeats a failed mount at least every two minutes; an older event says nothing."""

REPLICA_REPLACED = "ReplicaReplaced"

_CANNOT_START = frozenset({"CreateContainerError", "RunContainerError"})
_START_FAILED = frozenset({"StartError", "ContainerCannotRun"})


@dataclass(frozen=True, slots=True)
class Sign:
    """A reason to hold the disk for dead, and since when it shows."""

    reason: str
    evidence: str
    since: float


def proof(incarnation: Incarnation, now: float) -> Sign | None:
    """A proof of a dead disk, or None."""
    pod, report = incarnation.pod, incarnation.report
    claim, volume = incarnation.claim, incarnation.volume
    if pod is not None and pod.exit_code == EXIT_STORAGE_FAILED:
        told = pod.exit_message or f"exit code {EXIT_STORAGE_FAILED}"
        return Sign("StorageFailed", f"{pod.name}: {told}", pod.exit_at or now)
    if report is not None and report.storage == "failed":
        return Sign("StorageFailed", report.storage_detail or "reported by the node", now)
    if volume is not None and volume.phase == "Failed":
        return Sign("VolumeFailed", f"PersistentVolume {volume.name} is Failed", now)
    if claim is not None and claim.phase == "Lost":
        return Sign("VolumeLost", f"PersistentVolumeClaim {claim.name} lost its volume", now)
    if volume is not None and volume.hosts and not volume.hosts_exist:
        hosts = ", ".join(volume.hosts)
        return Sign("HostDeleted", f"volume {volume.name} lives on {hosts}, which is gone", now)
    # A claim that is not there proves nothing: it may not have been made yet. When a new, empty one
    # takes the place of one that was in use, the process tells by its new replica UUID.
    if incarnation.uuid is not None and report is not None and report.uuid != incarnation.uuid:
        told = f"the volume held {incarnation.uuid} and now holds {report.uuid}"
        return Sign(REPLICA_REPLACED, told, now)
    return None


def circumstance(incarnation: Incarnation, now: float) -> Sign | None:
    """A sign that must last before it counts, or None."""
    pod = incarnation.pod
    if pod is None or pod.deleting or pod.ready or pod.exit_code == EXIT_DISK_FULL:
        return None
    since = pod.created_at if pod.not_ready_since is None else pod.not_ready_since
    if _mount_fails(pod, now):
        return Sign("VolumeNotMounted", pod.mount_failure or "the volume can't be mounted", since)
    waiting = pod.waiting_reason or ""
    if waiting in _CANNOT_START or (pod.exit_reason or "") in _START_FAILED:
        return Sign("PodCannotStart", f"{pod.name}: {waiting or pod.exit_reason}", since)
    return None


def _mount_fails(pod: PodFacts, now: float) -> bool:
    if pod.mount_failed_at is None or pod.waiting_reason in {"ImagePullBackOff", "ErrImagePull"}:
        return False
    return now - pod.mount_failed_at <= MOUNT_FAILURE_FRESH_S


def latch(sign: Sign, now: float) -> FailureLatch:
    """What is written on the StatefulSet."""
    return FailureLatch(
        reason=sign.reason, evidence=sign.evidence, at=now, first_sign_at=min(sign.since, now)
    )
