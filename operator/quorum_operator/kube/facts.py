"""Converts Kubernetes objects to the planner's facts. Pure functions over plain dictionaries."""

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

from quorum_node.json_text import read_json
from quorum_node.survivor import Survivor, parse_survivor
from quorum_operator.desired import names
from quorum_operator.desired.identity import TLS_ON
from quorum_operator.kube.mounts import MountFailure
from quorum_operator.kube.node_container import node_container
from quorum_operator.planner.formation_defaults import defaults_in
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    Founding,
    Identity,
    PodFacts,
    StorageChoice,
    VolumeFacts,
)
from quorum_operator.planner.times import seconds_of, time_in
from quorum_operator.planner.tls_stage import TlsStage, stage_of_process
from quorum_operator.planner.update_record import Revision, UpdateOutcome, UpdateRecord
from quorum_operator.quantity import value_of, whole_number

Object = dict[str, Any]


def seconds(text: str | None) -> float | None:
    """A Kubernetes time as seconds since 1970."""
    return None if text is None else seconds_of(text)


def identity_facts(config_map: Object, index: int) -> Identity | None:
    """The facts of an identity ConfigMap; None if its data is not that of an identity. `index`: from its name."""
    data, meta = config_map.get("data") or {}, config_map["metadata"]
    notes = meta.get("annotations") or {}
    try:
        cluster_id, founder_uuid = data["clusterId"], data["founderUuid"]
        founder_id, initial_voters = int(data["founderId"]), int(data["initialVoters"])
    except (KeyError, ValueError):
        return None
    return Identity(
        index=index,
        cluster_id=cluster_id,
        founder_id=founder_id,
        founder_uuid=founder_uuid,
        initial_voters=initial_voters,
        formed="true" in (notes.get(names.ANNOTATION_FORMED), data.get("formed")),
        resource_version=meta["resourceVersion"],
        restarting=notes.get(names.ANNOTATION_RESTARTING),
        network_policy=data.get("networkPolicy") == "true",
        defaults=defaults_in(data.get("defaults")),
        tls=data.get("tls") == TLS_ON,
        migration=_stage(notes.get(names.ANNOTATION_TLS_STAGE)),
        update=update_facts(notes.get(names.ANNOTATION_UPDATE)),
    )


def _stage(text: str | None) -> TlsStage:
    """The TLS stage in the annotation; PLAIN for unknown values."""
    return TlsStage(text) if text in list(TlsStage) else TlsStage.PLAIN


def update_facts(text: str | None) -> UpdateRecord | None:
    """Parse the annotation with the state of updates; None if it can't be parsed."""
    try:
        document = read_json(text or "")
        return UpdateRecord(
            settled=Revision(
                str(document["revision"]), json.dumps(document["parts"], sort_keys=True)
            ),
            tried=document.get("tried"),
            outcome=UpdateOutcome(document.get("outcome", UpdateOutcome.PASSED)),
            canary=document.get("canary"),
            why=str(document.get("why", "")),
            at=time_in(document.get("at", 0.0)),
        )
    except (ValueError, KeyError, TypeError):
        return None


def update_text(record: UpdateRecord) -> str:
    """The inverse of `update_facts`."""
    parts = json.loads(record.settled.parts)
    document = {"revision": record.settled.id, "parts": parts}
    if record.tried is not None:
        document |= {
            "tried": record.tried,
            "outcome": record.outcome.value,
            "canary": record.canary,
        }
        document |= {"why": record.why, "at": record.at}
    return json.dumps(document, sort_keys=True)


_GIVEN_UP = " given up"


def recovery_facts(text: str | None) -> tuple[Survivor | None, bool]:
    """Parse the annotation that makes an incarnation the sole voter. Returns the survivor, and whether that was
    cancelled.
    """
    if text is None:
        return None, False
    try:
        return parse_survivor(text.removesuffix(_GIVEN_UP)), text.endswith(_GIVEN_UP)
    except ValueError:
        return None, False


def recovery_text(survivor: str, *, given_up: bool) -> str:
    """The inverse of `recovery_facts`."""
    return survivor + _GIVEN_UP if given_up else survivor


def latch_facts(text: str | None) -> FailureLatch | None:
    """Parse the annotation with an incarnation's failure."""
    if text is None:
        return None
    try:
        document = read_json(text)
        return FailureLatch(
            reason=str(document["reason"]),
            evidence=str(document.get("evidence", "")),
            at=time_in(document["at"]),
            first_sign_at=time_in(document.get("firstSignAt", document["at"])),
        )
    except (ValueError, KeyError, TypeError):
        # Even with an edited value, an incarnation that was marked failed stays failed.
        return FailureLatch(reason="Failed", evidence=text[:200], at=0.0, first_sign_at=0.0)


def latch_text(latch: FailureLatch) -> str:
    """The inverse of `latch_facts`."""
    return json.dumps(
        {
            "reason": latch.reason,
            "evidence": latch.evidence,
            "at": latch.at,
            "firstSignAt": latch.first_sign_at,
        }
    )


UNLATCHED_KEPT = 60
"""Maximum number of stored times, equal to the maximum of `repair.maxReplacementsPerHour`."""


def unlatched_facts(text: str | None) -> tuple[float, ...]:
    """Parse the annotation with the times of revoked failure marks."""
    try:
        return tuple(time_in(each) for each in read_json(text or "[]"))
    except (ValueError, TypeError):
        return ()


def unlatched_text(times: tuple[float, ...]) -> str:
    """The inverse of `unlatched_facts`."""
    return json.dumps(times[-UNLATCHED_KEPT:])


def storage_facts(text: str | None, fallback: StorageChoice) -> StorageChoice:
    """Parse the annotation with the storage of a claim; `fallback` if it is missing or invalid."""
    try:
        document = read_json(text or "null")
        size, storage_class = document["size"], document.get("storageClass")
    except (ValueError, KeyError, TypeError, AttributeError):
        return fallback
    if value_of(str(size)) is None or not isinstance(storage_class, str | None):
        return fallback
    return StorageChoice(str(size), storage_class)


def claimed_storage(
    stateful_set: Object, wanted: StorageChoice, claim: Object | None = None
) -> StorageChoice:
    """The storage that a StatefulSet was created for, as noted in its claim template, which is immutable; later
    expansions are in the annotation. What the template requests counts only without that note, or if the spec has come to
    want just that: an admission webhook may have changed it, and would change that of the next member as well.

    An annotation that names another class, less than the template, or more than the `claim` requests was edited.
    """
    notes = stateful_set["metadata"].get("annotations") or {}
    noted = notes.get(names.ANNOTATION_STORAGE)
    for template in stateful_set["spec"].get("volumeClaimTemplates") or []:
        size = template["spec"].get("resources", {}).get("requests", {}).get("storage")
        if size is not None:
            stored = StorageChoice(size, template["spec"].get("storageClassName"))
            sent = (template.get("metadata") or {}).get("annotations") or {}
            asked = storage_facts(sent.get(names.ANNOTATION_STORAGE), stored)
            made = stored if stored == wanted else asked
            found = storage_facts(noted, made)
            return found if _is_expansion(found, made, claim) else made
    return storage_facts(noted, wanted)


def _is_expansion(found: StorageChoice, made: StorageChoice, claim: Object | None) -> bool:
    requests = (((claim or {}).get("spec") or {}).get("resources") or {}).get("requests") or {}
    texts = (made.size, found.size, str(requests.get("storage", found.size)))
    least, size, most = map(value_of, texts)
    if least is None or size is None or most is None:
        return True
    return found.storage_class == made.storage_class and least <= size <= most


def replaces_facts(text: str | None) -> int | None:
    """Parse the annotation with the number of the replaced incarnation."""
    return whole_number(text)


def overrides_of(stateful_set: Object) -> dict[str, str]:
    """Properties of a StatefulSet's process in addition to the shared ones."""
    return overrides_in(stateful_set["spec"].get("template", {}).get("spec", {}))


def overrides_in(pod_spec: Object) -> dict[str, str]:
    """Properties in the arguments of a pod's containers."""
    containers = pod_spec.get("containers", [])
    arguments = [text for each in containers for text in each.get("args") or []]
    pairs = pairwise(arguments)
    overrides = [text.partition("=") for option, text in pairs if option == "--override"]
    return {key: value for key, _, value in overrides}


def founding_facts(overrides: dict[str, str]) -> Founding | None:
    """The permission to form a quorum in the properties of a process."""
    found = [overrides.get(f"formation.{key}", "") for key in ("founder.id", "initial.voters")]
    uuid = overrides.get("formation.founder.uuid", "")
    founder_id, initial_voters = map(whole_number, found)
    if not uuid or founder_id is None or initial_voters is None:
        return None
    return Founding(founder_id, uuid, initial_voters)


def claim_facts(claim: Object) -> ClaimFacts:
    """The facts of a PersistentVolumeClaim."""
    notes = claim["metadata"].get("annotations") or {}
    return ClaimFacts(
        name=claim["metadata"]["name"],
        uid=claim["metadata"]["uid"],
        phase=claim.get("status", {}).get("phase", "Pending"),
        deleting="deletionTimestamp" in claim["metadata"],
        volume=claim["spec"].get("volumeName"),
        network_policy=names.ANNOTATION_NETWORK_POLICY in notes,
        defaults=defaults_in(notes.get(names.ANNOTATION_DEFAULTS)),
        expansion=_expansion(claim),
    )


_EXPANSION_CONDITIONS = (
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
)
"""Conditions of a claim whose volume is being expanded (Kubernetes API, PersistentVolumeClaimConditionType)."""


def _expansion(claim: Object) -> str | None:
    """Why a volume is smaller than its claim requests; None if it is not, or if the claim has no volume yet."""
    status = claim.get("status") or {}
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    wanted, has = requests.get("storage"), (status.get("capacity") or {}).get("storage")
    wanted_value, value = value_of(str(wanted)), value_of(str(has))
    if wanted_value is None or value is None or value >= wanted_value:
        return None
    shown = [
        ": ".join(filter(None, (each["type"], each.get("message"))))
        for each in status.get("conditions") or ()
        if each.get("status") == "True" and each["type"] in _EXPANSION_CONDITIONS
    ]
    return f"has {has}" + "".join(f", {each}" for each in shown)


NODE_NAME = "metadata.name"
_HOST_KEY = re.compile(r"(node|host)([-_.]?(name|id))?", re.IGNORECASE)


class Tie(NamedTuple):
    """A node label with the value of the host that a volume is local to."""

    key: str
    value: str

    @property
    def by_id(self) -> bool:
        """Whether the value is an id instead of the name of a Node."""
        return self.key.lower().endswith("id")


def volume_facts(volume: Object, ties: tuple[Tie, ...], host_exists: bool) -> VolumeFacts:
    """The facts of a PersistentVolume. `host_exists`: whether one of its hosts exists."""
    return VolumeFacts(
        name=volume["metadata"]["name"],
        phase=volume.get("status", {}).get("phase", "Bound"),
        hosts=tuple(dict.fromkeys(tie.value for tie in ties)),
        hosts_exist=not ties or host_exists,
    )


def ties_of(volume: Object, selected_node: str | None = None) -> tuple[Tie, ...]:
    """The hosts that a volume is local to; empty if it is reachable from several hosts.

    Drivers of local volumes have labels of their own, such as `topology.topolvm.io/node` or `openebs.io/nodename`.
    The node that the claim was provisioned for counts as a host under any label.
    """
    spec = volume["spec"]
    terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    ties: list[Tie] = []
    for term in terms:
        found = [
            Tie(rule["key"], value)
            for rule in [*term.get("matchExpressions", []), *term.get("matchFields", [])]
            if rule["operator"] == "In"
            for value in rule.get("values", [])
            if _names_host(rule["key"]) or value == selected_node
        ]
        if not found:
            return ()  # It is accessible from several hosts.
        ties += found
    return tuple(dict.fromkeys(ties))


def _names_host(key: str) -> bool:
    return key == NODE_NAME or _HOST_KEY.fullmatch(key.rpartition("/")[2]) is not None


def pod_facts(
    pod: Object, failure: MountFailure | None, unusable_volume: str | None = None
) -> PodFacts:
    """The facts of a pod. `failure`, `unusable_volume`: problems of its data volume (`mounts.py`)."""
    meta, status = pod["metadata"], pod.get("status", {})
    conditions = {entry["type"]: entry for entry in status.get("conditions", [])}
    container = node_container(pod)
    state, last = container.get("state", {}), container.get("lastState", {})
    ended = state.get("terminated") or last.get("terminated") or {}
    ready = conditions.get("Ready", {})
    is_ready = ready.get("status") == "True"
    created = seconds(meta["creationTimestamp"])
    assert created is not None
    return PodFacts(
        name=meta["name"],
        uid=meta["uid"],
        created_at=created,
        ip=status.get("podIP"),
        host=pod["spec"].get("nodeName"),
        phase=status.get("phase", "Pending"),
        ready=is_ready,
        deleting="deletionTimestamp" in meta,
        ends_at=seconds(meta.get("deletionTimestamp")),
        held_by=held_by(meta),
        running="running" in state,
        started="running" in state or bool(ended),
        exit_code=ended.get("exitCode"),
        exit_reason=ended.get("reason"),
        exit_message=_message(ended),
        exit_at=seconds(ended.get("finishedAt")),
        waiting_reason=state.get("waiting", {}).get("reason"),
        waiting_message=str(state.get("waiting", {}).get("message") or "")[:300] or None,
        not_ready_since=None if is_ready else seconds(ready.get("lastTransitionTime")),
        ready_since=seconds(ready.get("lastTransitionTime")) if is_ready else None,
        mount_failed_at=failure.at if failure is not None else None,
        mount_failure=failure.message if failure is not None else None,
        unusable_volume=unusable_volume,
        unschedulable=_unschedulable(conditions.get("PodScheduled", {})),
        restart_hash=(meta.get("annotations") or {}).get(names.ANNOTATION_RESTART),
        tls_stage=stage_of_process(overrides_in(pod["spec"])),
    )


def held_by(meta: Object) -> tuple[str, ...]:
    """Finalizers that block the deletion of an object, without Kubernetes' own."""
    if "deletionTimestamp" not in meta:
        return ()
    return tuple(each for each in meta.get("finalizers") or () if each not in _PASSING)


_PASSING = frozenset({"foregroundDeletion", "orphan"})
_SHOWN = 600
"""Maximum length of a termination message; the rest is cut off."""


def _message(ended: Object) -> str | None:
    """The node's termination message (a JSON object), shortened; None if it has none."""
    text = ended.get("message")
    if not text:
        return None
    try:
        document = read_json(text)
        return f"{document['reason']}: {document['message']}"[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return str(text)[:_SHOWN]


def _unschedulable(scheduled: Object) -> str | None:
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason"))[:200]
    return None


def needs_events(pod: Object) -> bool:
    """Whether only the pod's events can explain why its container does not run."""
    container = node_container(pod)
    waiting = container.get("state", {}).get("waiting", {}).get("reason")
    scheduled = pod["spec"].get("nodeName") is not None
    return scheduled and (not container or waiting in {"ContainerCreating", "PodInitializing"})
