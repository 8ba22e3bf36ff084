"""The problem of a member as text; None for a healthy member.

Owns the texts and their order: the first that applies is the cause of the following ones. Does not judge disks
(`evidence.py`).
"""

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.evidence import deleted_host
from quorum_operator.planner.observed import Incarnation, PodFacts, ReplicaView
from quorum_operator.planner.times import text_of

ENDING_GRACE_S = 60.0
"""Time after which a pod hangs that should have ended: its kubelet has killed its process long ago."""

RECORDS_LOST = "RecordsLost"
"""Beginning of the text for lost records, and the reason of the event."""

DAMAGED_RECORDS = "DamagedRecords"
"""Beginning of the text for records that arrive damaged, and the reason of the event."""

CANNOT_START = "CannotStart"
"""Beginning of the text if the container can't be created or started: a fault that a new member would share."""

IMAGE_FAULTS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
)
"""Waiting reasons of a container whose image can't be pulled."""

_CANNOT_START = IMAGE_FAULTS | {
    *("StartError", "ContainerCannotRun", "RunContainerError"),
    *("CreateContainerError", "CreateContainerConfigError"),
}
_RESTARTED_AGAIN = "CrashLoopBackOff"


def is_disk_full(each: Incarnation) -> bool:
    """Whether its exit code or report says that the disk is full."""
    if each.report is not None:
        return each.report.storage == "full"
    return each.pod is not None and not each.pod.ready and each.pod.exit_code == ExitCode.DISK_FULL


def lost_records(replica: ReplicaView | None) -> str | None:
    """The leader's report about a replica with an older image of its disk. It is informational: a late request looks
    the same, and the replica reports failed disks itself.
    """
    if replica is None or replica.went_back is None:
        return None
    acknowledged, offset = replica.went_back
    return (
        f"{RECORDS_LOST}: it fetched from offset {offset} after it had acknowledged all records before {acknowledged}. If "
        "its volume was rolled back, list the member in spec.retire"
    )


def damaged_records(replica: ReplicaView | None) -> str | None:
    """The replica's report about records that its leader sends. It is informational: the leader checks its own disk and
    stops if it is bad, which is a failed disk of the leader; the replica that reports is sound.
    """
    if replica is None or replica.damaged_from is None:
        return None
    return (
        f"{DAMAGED_RECORDS}: the records that the leader sends arrive damaged from offset {replica.damaged_from} on. The "
        "leader stops if its disk is bad. If it does not, check the network between the two hosts, or make another "
        "member the leader"
    )


NO_POD = "NoPod"
"""Beginning of the text if the pod does not exist; a reason and the API server's answer may follow."""

OTHER_STATEFUL_SET = "OtherStatefulSet"
"""Beginning of the text if its StatefulSet was replaced by one with other immutable fields."""

LEFT = "Left"
"""Beginning of the text of a removed member whose pod can't be deleted while its host is down."""


def hangs(pod: PodFacts, now: float) -> bool:
    """Whether it is terminating, and something keeps it from ending that no finalizer explains."""
    ends_at = pod.ends_at
    return ends_at is not None and not pod.held_by and now - ends_at >= ENDING_GRACE_S


def member_problem(each: Incarnation, now: float, unreachable: str | None = None) -> str | None:
    """One word, or a word with details; `unreachable`: details about the host of an unreachable member."""
    if each.failed is not None:
        return "; ".join(filter(None, [f"Failed: {each.failed.reason}", _delayed_end(each, now)]))
    if is_disk_full(each):
        return "DiskFull"
    if each.stopped is not None and unreachable is not None:
        return f"{LEFT}: it is stopped; its pod is deleted when the host is back ({unreachable})"
    if each.stopped is not None:
        return "; ".join(filter(None, [f"Stopped: {each.stopped}", _delayed_end(each, now)]))
    if unreachable is not None:
        return f"Unreachable: {unreachable}"
    if each.claim is not None and each.claim.deleting:
        return "ClaimTerminating"
    pod, deleted, delayed = each.pod, deleted_host(each), _delayed_end(each, now)
    if deleted is not None and each.report is None:
        return f"{deleted.reason}: {deleted.evidence}"
    if each.immutable_drift is not None and not each.held_by:
        return _other_stateful_set(each)
    if pod is None and delayed is not None:
        return f"{NO_POD}: {delayed}"
    if pod is None:
        refused = each.not_made
        return NO_POD if refused is None else f"{NO_POD}: {refused.reason}: {refused.message}"
    if pod.deleting:
        return "PodTerminating" if delayed is None else f"PodTerminating: {delayed}"
    if pod.unschedulable is not None:
        return f"Unschedulable: {pod.unschedulable}"
    if not pod.ready:
        detail = why_not_running(pod)
        if detail is None and each.host_away is not None:
            detail = f"its host {each.host_away.name} is {each.host_away.state}"
        return cannot_start(pod) or ("NotReady" if detail is None else f"NotReady: {detail}")
    return None


def _other_stateful_set(each: Incarnation) -> str:
    """Message about an immutable field. The operator does not delete the StatefulSet of a running member by itself: what the
    garbage collector does not know yet to be orphaned would be deleted with it.
    """
    return (
        f"{OTHER_STATEFUL_SET}: {each.immutable_drift}, which can't be changed. Until it is corrected, the operator does not "
        f"restart the pod. kubectl delete statefulset {each.name} --cascade=orphan: it is created again for its claim"
    )


def _delayed_end(each: Incarnation, now: float) -> str | None:
    """Message about the pod or StatefulSet of a member that waits for finalizers or hangs; None if neither does."""
    pod = each.pod
    if pod is None:
        return _held(f"StatefulSet/{each.name}", each.held_by) if each.held_by else None
    if pod.deleting and pod.held_by:
        return _held(f"Pod/{pod.name}", pod.held_by)
    return _hanging(pod, now)


def _held(what: str, finalizers: tuple[str, ...]) -> str:
    """Message about finalizers, which only their owner can remove safely."""
    return (
        f"{what} is being deleted and waits for its finalizers ({', '.join(finalizers)}). If their owner does not "
        "remove them, remove them with kubectl edit; the deletion then continues"
    )


def _hanging(pod: PodFacts, now: float) -> str | None:
    if pod.ends_at is None or not hangs(pod, now):
        return None
    return (
        f"Pod/{pod.name} should have ended at {text_of(pod.ends_at)}: its process or volume hangs. Restart its host {pod.host}. "
        f"If that is impossible, and its process does not run any more: kubectl delete pod {pod.name} --grace-period=0 --force"
    )


def why_not_running(pod: PodFacts) -> str | None:
    """Details about a pod that is not ready: preferably the termination message of its process, rather than the fact
    that it restarts.
    """
    if pod.mount_failure is not None or (pod.mount_obstacle is not None and not pod.running):
        return pod.mount_failure or pod.mount_obstacle
    message = None if pod.running else pod.exit_message
    if pod.waiting_reason in (None, _RESTARTED_AGAIN):
        return message or pod.waiting_reason or pod.exit_reason
    return pod.waiting_reason


def cannot_start(pod: PodFacts) -> str | None:
    """Why its container can't be created or started, regardless of retries."""
    if pod.running:
        return None
    if pod.waiting_reason in _CANNOT_START:
        return f"{CANNOT_START}: {pod.waiting_reason}: {pod.waiting_message or 'no message'}"
    if pod.exit_reason in _CANNOT_START:
        return f"{CANNOT_START}: {pod.exit_reason}: {pod.exit_message or 'no message'}"
    return None
