"""Problems of a pod's data volume in events and container states. Pure functions over plain dictionaries.

Only current problems count that name the data volume and describe a fault of the volume itself. A volume attached
elsewhere, a slow operation, a missing driver, or a late ConfigMap or Secret are not faults of the disk: a new member
would have them too.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quorum_operator.kube.node_container import node_container

Object = dict[str, Any]

DATA_VOLUME = "data"
"""Name of the data volume in the pod. Messages of the kubelet contain this name or that of the PersistentVolume."""

_FAILURES = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_MOUNTED = frozenset(
    {
        *("SuccessfulMountVolume", "SandboxChanged", "FailedCreatePodSandBox"),
        *("Pulling", "Pulled", "Created", "Started", "Failed", "BackOff"),
    }
)
"""Event reasons that the kubelet reports only after all volumes of the pod are mounted."""

_VOLUME = re.compile(r'for volume "([^"]+)"')
_NOT_ITS_OWN = re.compile(
    "|".join(
        [
            # The volume is, or just was, attached to another node.
            r"multi-attach|already (exclusively )?(attached|used|exists)|in use\b|\bbusy\b",
            r"volume ?attachment|was (attaching|detaching)|attached to (another|a different)",
            # A timeout, or a concurrent attempt.
            r"timed? ?out|deadline ?exceeded|context canceled|operation with the given volume",
            # The driver, its node or its service is missing or refuses.
            r"code = (unavailable|aborted|canceled|resourceexhausted|unauthenticated|permissiondenied|unimplemented)",
            r"connection refused|no such host|registered csi drivers|csinode|nodeid|forbidden",
            r"node \S+ (not found|has no|does not)|maximum number|limit\b",
            # Another object that the mount needs.
            r"\b(secrets?|configmaps?)\b",
        ]
    ),
    re.IGNORECASE,
)

_NO_CONTAINER = frozenset(
    {"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"}
)
_UNREADABLE = re.compile(
    r"input/output error|structure needs cleaning|no such device|stale (nfs )?file handle|"
    r"transport endpoint is not connected",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MountFailure:
    """The data volume can't be mounted. `at`: time of the last event, seconds since 1970."""

    message: str
    at: float


def mount_failure(pod: Object, events: list[Object], volume: str | None) -> MountFailure | None:
    """A current failure of the PersistentVolume `volume` in the pod's events, or None."""
    if volume is None or _is_past_mounting(pod):
        return None
    relevant = [each for each in events if _names(each, volume, pod)]
    latest = max(
        (each for each in relevant if each.get("reason") in _FAILURES),
        key=occurred_at,
        default=None,
    )
    if latest is None or _NOT_ITS_OWN.search(_message(latest)):
        return None
    over = [each for each in events if each.get("reason") in _MOUNTED]
    over += [each for each in relevant if each.get("reason") == "SuccessfulAttachVolume"]
    at = occurred_at(latest)
    if any(occurred_at(each) >= at for each in over):
        return None
    return MountFailure(_message(latest)[:300], at)


def unusable_volume(pod: Object, volume: str | None) -> str | None:
    """The container runtime's message about a mounted data volume that can't be read, or None."""
    if volume is None:
        return None
    container = node_container(pod)
    for state in (container.get("state", {}), container.get("lastState", {})):
        if "running" in state:
            return None
        details = state.get("waiting") or state.get("terminated") or {}
        message = str(details.get("message") or "")
        place = re.search(rf"/volumes/kubernetes\.io~[^/]+/{re.escape(volume)}(?![\w.-])", message)
        if details.get("reason") in _NO_CONTAINER and place and _UNREADABLE.search(message):
            return message[:300]
    return None


def _is_past_mounting(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        each["type"] == "PodReadyToStartContainers" and each["status"] == "True"
        for each in conditions
    )


def _names(event: Object, volume: str, pod: Object) -> bool:
    """Whether the message names the data volume; False if another volume of the pod has the same name."""
    found = _VOLUME.search(_message(event))
    if found is None or found.group(1) not in {volume, DATA_VOLUME}:
        return False
    others = [
        each for each in pod["spec"].get("volumes", []) if "persistentVolumeClaim" not in each
    ]
    return all(each.get("name") != found.group(1) for each in others)


def _message(event: Object) -> str:
    return str(event.get("message") or "")


def occurred_at(event: Object) -> float:
    """Time of the last occurrence: by the API server's clock if available, else by the reporter's."""
    meta = event["metadata"]
    stamps = [each["time"] for each in meta.get("managedFields") or [] if each.get("time")]
    if not stamps:
        series = event.get("series") or {}
        times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
        stamps = [next((text for text in times if text), meta["creationTimestamp"])]
    return max(datetime.fromisoformat(each).timestamp() for each in stamps)
