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

_SHOWN = 300
"""Maximum length of a message; the rest is cut off."""
DATA_VOLUME = "data"
"""Name of the data volume in the pod. Messages of the kubelet contain this name or that of the PersistentVolume."""

_ATTACH_FAILED = "FailedAttachVolume"
_FAILURES = frozenset({"FailedMount", _ATTACH_FAILED, "FailedMapVolume"})
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
            r"multi-attach|already (exclusively |being )?(attached|used|exists|mounted|mapped|published|owned)",
            r"(still|currently|being) (being )?(used|attached|detached|mapped)|\bdetaching\b|whilebeingdetached",
            r"\bin[ _-]?use\b|in_use_|volumeinuse|\bbusy\b|volume ?attachment|was (attaching|detaching)",
            r"(attached|published|mapped|assigned) (to|on|at) (an? |the )?(another|other|different|wrong)",
            r"is different from|status must be|incorrectstate",
            # A timeout, or a concurrent attempt.
            r"timed? ?out|deadline ?exceeded|context canceled|operation with the given volume",
            # The driver, its node or its service is missing or refuses. By the specification of CSI, FailedPrecondition
            # means that the volume is published on another node.
            r"code = (unavailable|aborted|canceled|resourceexhausted|unauthenticated|permissiondenied|unimplemented)",
            r"code = failedprecondition",
            r"connection (refused|reset|closed|lost)|no such host|registered csi drivers|csinode|nodeid|forbidden",
            r"no route to host|network is unreachable|host is down|broken pipe|transport is closing|\beof\b|x509|tls:",
            # The host has run out of something.
            r"no space left|cannot allocate memory|too many open files|resource temporarily unavailable",
            r"unauthorized|not authorized|access ?denied|credential|throttl|rate exceeded|quota|too many requests",
            r"(?<![/\w-])(node|host|instance|server|vm)(?![/\w-])[^:;,/]{0,80} (not found|has no|does not)",
            r"maximum number|limit\b|limitexceeded",
            # Another object that the mount needs.
            r"\b(secrets?|configmaps?)\b",
        ]
    ),
    re.IGNORECASE,
)
_VOLUME_IS_BAD = re.compile(
    r"code = (notfound|dataloss)|not ?found|(does not|doesn't|no longer) exist|no such (volume|disk|device)|"
    r"input/output error|i/o error|medium error|corrupt|faulted|in (an? |the )?'?(error|failed)'? state",
    re.IGNORECASE,
)
"""What a failed attach has to say: it is an order to the storage system, given before any host touches the disk. It fails
for many reasons that every driver words differently, and that a new volume would share.
"""

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
    latest = _standing([each for each in events if _names(each, volume, pod)], events)
    if latest is None or not _is_of_the_disk(latest):
        return None
    return MountFailure(_message(latest)[:_SHOWN], occurred_at(latest))


def mount_obstacle(pod: Object, events: list[Object]) -> str | None:
    """Why the pod waits for its volumes, whichever of them it is and whatever the cause; None if it does not."""
    latest = None if _is_past_mounting(pod) else _standing(events, events)
    return None if latest is None else _message(latest)[:_SHOWN]


def _standing(concerned: list[Object], events: list[Object]) -> Object | None:
    """The last failure among the events `concerned`, unless it is over by one of all `events`."""
    latest = max(
        (each for each in concerned if each.get("reason") in _FAILURES),
        key=occurred_at,
        default=None,
    )
    if latest is None:
        return None
    over = [each for each in events if each.get("reason") in _MOUNTED]
    over += [each for each in concerned if each.get("reason") == "SuccessfulAttachVolume"]
    at = occurred_at(latest)
    return None if any(occurred_at(each) >= at for each in over) else latest


def _is_of_the_disk(event: Object) -> bool:
    """Whether a failure is the disk's own, and not one of its driver, its attachment or another object."""
    message = _message(event)
    if _NOT_ITS_OWN.search(message):
        return False
    return event.get("reason") != _ATTACH_FAILED or _VOLUME_IS_BAD.search(message) is not None


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
            return message[:_SHOWN]
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
