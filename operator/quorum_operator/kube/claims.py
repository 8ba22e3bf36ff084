"""Converts PersistentVolumeClaims to the planner's facts and back: marks, and claims without a StatefulSet."""

from dataclasses import replace
from typing import Any

from quorum_operator.desired import names
from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts
from quorum_operator.kube.finding import MemberId
from quorum_operator.planner.formation_defaults import defaults_in, defaults_text
from quorum_operator.planner.observed import ClaimFacts, LoneClaim, Marks, StorageChoice
from quorum_operator.quantity import value_of, whole_number

Object = dict[str, Any]
_ENDED = ("Succeeded", "Failed")
"""Phases of pods that keep no claim."""


def claim_facts(claim: Object) -> ClaimFacts:
    """The facts of a PersistentVolumeClaim, with its marks."""
    return replace(
        facts.claim_facts(claim),
        marks=marks_facts(claim["metadata"]),
        resource_version=claim["metadata"].get("resourceVersion", ""),
        storage_class=(claim.get("spec") or {}).get("storageClassName"),
        owners=frozenset(each["uid"] for each in claim["metadata"].get("ownerReferences") or ()),
    )


def has_room_for(claim: Object | None, size: str) -> bool:
    """Whether a claim requests at least `size`."""
    requests = ((claim or {}).get("spec") or {}).get("resources", {}).get("requests", {})
    there, wanted = value_of(str(requests.get("storage", ""))), value_of(size)
    return there is not None and wanted is not None and there >= wanted


def marks_facts(meta: Object) -> Marks:
    """The facts in the annotations of a claim. The formation is in a label if its annotation is missing."""
    notes = meta.get("annotations") or {}
    formation = notes.get(names.ANNOTATION_FORMATION)
    formation = formation or (meta.get("labels") or {}).get(names.LABEL_FORMATION) or ""
    return Marks(
        uuid=notes.get(names.ANNOTATION_UUID) or None,
        cluster_id=notes.get(names.ANNOTATION_CLUSTER_ID),
        resource_uid=notes.get(names.ANNOTATION_RESOURCE_UID),
        formation=whole_number(formation),
        failed=facts.latch_facts(notes.get(names.ANNOTATION_FAILED)),
        fenced=notes.get(names.ANNOTATION_FENCED),
        removed=notes.get(names.ANNOTATION_REMOVED),
        recovery=notes.get(names.ANNOTATION_RECOVERY),
        tls=names.ANNOTATION_TLS in notes,
        network_policy=names.ANNOTATION_NETWORK_POLICY in notes,
        defaults=defaults_in(notes.get(names.ANNOTATION_DEFAULTS)),
    )


def marks_notes(marks: Marks) -> dict[str, str | None]:
    """The inverse of `marks_facts` as a merge patch; None removes an annotation."""
    return {
        names.ANNOTATION_UUID: marks.uuid,
        names.ANNOTATION_CLUSTER_ID: marks.cluster_id,
        names.ANNOTATION_RESOURCE_UID: marks.resource_uid,
        names.ANNOTATION_FORMATION: None if marks.formation is None else str(marks.formation),
        names.ANNOTATION_FAILED: None if marks.failed is None else facts.latch_text(marks.failed),
        names.ANNOTATION_FENCED: marks.fenced,
        names.ANNOTATION_REMOVED: marks.removed,
        names.ANNOTATION_RECOVERY: marks.recovery,
        names.ANNOTATION_TLS: "true" if marks.tls else None,
        names.ANNOTATION_NETWORK_POLICY: "true" if marks.network_policy else None,
        names.ANNOTATION_DEFAULTS: defaults_text(marks.defaults) or None,
    }


def lone_claims(
    owner: Owner, claims: dict[MemberId, Object], sets: set[MemberId], pods: dict[MemberId, Object]
) -> tuple[LoneClaim, ...]:
    """Claims without a StatefulSet of that name. `sets`: all existing StatefulSets, of any owner; `pods`: of members."""
    return tuple(
        LoneClaim(
            node_id=node_id,
            number=number,
            member=owner.member(node_id, number),
            claim=claim_facts(claim),
            storage=_storage(claim),
            in_use=_is_used(pods.get((node_id, number))),
        )
        for (node_id, number), claim in sorted(claims.items())
        if (node_id, number) not in sets
    )


def _is_used(pod: Object | None) -> bool:
    """Whether a pod keeps its claim from being removed for now."""
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return False
    return (pod.get("status") or {}).get("phase") not in _ENDED


def _storage(claim: Object) -> StorageChoice:
    """The storage in the claim's annotation, else the one that its spec requests."""
    spec = claim["spec"]
    size = spec.get("resources", {}).get("requests", {}).get("storage", "")
    made = StorageChoice(size, spec.get("storageClassName"))
    notes = claim["metadata"].get("annotations") or {}
    return facts.storage_facts(notes.get(names.ANNOTATION_STORAGE), made)
