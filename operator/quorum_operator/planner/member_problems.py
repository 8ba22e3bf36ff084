"""What is wrong with a member, in words for people; None for a member that is well.

Owns the words and their order: the first that holds is the cause of those behind it. Judges no disk (`evidence.py`).
"""

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.evidence import host_gone
from quorum_operator.planner.observed import Incarnation, PodFacts, ReplicaView

RECORDS_LOST = "RecordsLost"
"""How the text of such a member begins, and the reason of the event."""

CANNOT_START = "CannotStart"
"""How the text of a member begins whose container can't be made or started: a fault that a successor would share."""

IMAGE_FAULTS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
)
"""Why a container waits whose image can't be had."""

_CANNOT_START = IMAGE_FAULTS | {
    *("StartError", "ContainerCannotRun", "RunContainerError"),
    *("CreateContainerError", "CreateContainerConfigError"),
}
_RESTARTED_AGAIN = "CrashLoopBackOff"


def is_disk_full(each: Incarnation) -> bool:
    """Its own exit code or its own report says that the disk is full."""
    if each.report is not None:
        return each.report.storage == "full"
    return each.pod is not None and not each.pod.ready and each.pod.exit_code == ExitCode.DISK_FULL


def lost_records(replica: ReplicaView | None) -> str | None:
    """What the leader says of a replica that came back with an older image of its disk.

    It only informs: a late request looks alike, and the replica itself says when its disk has failed.
    """
    if replica is None or replica.went_back is None:
        return None
    acknowledged, offset = replica.went_back
    return (
        f"{RECORDS_LOST}: it fetched from offset {offset} after it had acknowledged all before {acknowledged};"
        " if its volume was rolled back, name the member in spec.retire"
    )


NO_POD = "NoPod"
"""How the text of a member begins whose pod has not been made; a reason and the API server's answer may follow."""

LEFT = "Left"
"""How the text of a member begins that has left, and whose pod can't end while its host is away."""


def member_problem(each: Incarnation, unreachable: str | None = None) -> str | None:
    """One word, or a word and its detail; `unreachable`: what is known of the host of a member that nobody reaches."""
    if each.failed is not None:
        return f"Failed: {each.failed.reason}"
    if is_disk_full(each):
        return "DiskFull"
    if each.stopped is not None and unreachable is not None:
        return f"{LEFT}: it is stopped, and its pod ends when the host is back ({unreachable})"
    if each.stopped is not None:
        return f"Stopped: {each.stopped}"
    if unreachable is not None:
        return f"Unreachable: {unreachable}"
    if each.claim is not None and each.claim.deleting:
        return "ClaimTerminating"
    pod, gone = each.pod, host_gone(each)
    if gone is not None and each.report is None:
        return f"{gone.reason}: {gone.evidence}"
    if pod is None and each.held_by:
        return f"{NO_POD}: {_held(f'StatefulSet/{each.name}', each.held_by)}"
    if pod is None:
        refused = each.not_made
        return NO_POD if refused is None else f"{NO_POD}: {refused.reason}: {refused.message}"
    if pod.deleting and pod.held_by:
        return f"PodTerminating: {_held(f'Pod/{pod.name}', pod.held_by)}"
    if pod.deleting:
        return "PodTerminating"
    if pod.unschedulable is not None:
        return f"Unschedulable: {pod.unschedulable}"
    if not pod.ready:
        detail = why_not_running(pod)
        if detail is None and each.host is not None and not each.host.ready:
            detail = f"its host {each.host.name} is {'not ready' if each.host.exists else 'gone'}"
        return cannot_start(pod) or ("NotReady" if detail is None else f"NotReady: {detail}")
    return None


def _held(what: str, finalizers: tuple[str, ...]) -> str:
    """Nobody but who has set them can take them off without harm."""
    return (
        f"{what} is being deleted, and stays until its finalizers are removed ({', '.join(finalizers)}). If nobody does"
        " that, remove them with kubectl edit; the member goes on then"
    )


def why_not_running(pod: PodFacts) -> str | None:
    """What is known of a pod that is not ready: what its process said when it ended, rather than that it is restarted."""
    if pod.mount_failure is not None:
        return pod.mount_failure
    said = None if pod.running else pod.exit_message
    if pod.waiting_reason in (None, _RESTARTED_AGAIN):
        return said or pod.waiting_reason or pod.exit_reason
    return pod.waiting_reason


def cannot_start(pod: PodFacts) -> str | None:
    """Why its container can't be made or started, whatever is tried again meanwhile."""
    if pod.running:
        return None
    if pod.waiting_reason in _CANNOT_START:
        return f"{CANNOT_START}: {pod.waiting_reason}: {pod.waiting_message or 'no message'}"
    if pod.exit_reason in _CANNOT_START:
        return f"{CANNOT_START}: {pod.exit_reason}: {pod.exit_message or 'no message'}"
    return None
