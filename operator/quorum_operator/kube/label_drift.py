"""Detects edited labels, and additional owners, of the operator's objects.

Kubernetes depends on labels: without one of them a Service drops a pod, and a StatefulSet releases it. Restoring the
label undoes this. Additional labels are not changed.
"""

from collections.abc import Iterator
from typing import Any

from quorum_operator.desired import identity, stateful_set
from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_QUORUM, Owner
from quorum_operator.kube.finding import Parts, formation_of
from quorum_operator.planner.object_facts import LabelDrift

Object = dict[str, Any]


def label_drift(owner: Owner, parts: Parts) -> tuple[LabelDrift, ...]:
    """Edited labels of identities, StatefulSets, pods and claims, and other owners of the first two, except objects being
    deleted.
    """
    return tuple(_drift(owner, parts))


def _drift(owner: Owner, parts: Parts) -> Iterator[LabelDrift]:
    for index, each in sorted(parts.identities.items()):
        yield from _of("ConfigMap", each, identity.labels(owner, index), shared=_is_shared(each))
    current = max(parts.identities, default=1)
    for member_id, each in sorted(parts.sets.items()):
        formation = formation_of(each) or current
        wanted = stateful_set.labels(owner, *member_id, formation)
        yield from _of("StatefulSet", each, wanted, shared=_is_shared(each))
        # The selector of a StatefulSet is immutable, so its pods need these labels in every version.
        selected = each["spec"].get("selector", {}).get("matchLabels") or {}
        yield from _of("Pod", parts.pods.get(member_id), {**wanted, **selected})
        claim = parts.claims.get(member_id)
        kept = stateful_set.claim_labels(owner, *member_id, formation)
        # Claims of the previous version are found by their own labels.
        there = {} if claim is None else claim["metadata"].get("labels") or {}
        older = LABEL_INSTANCE in there and LABEL_QUORUM not in there
        if older:
            kept = {key: value for key, value in wanted.items() if key != LABEL_QUORUM}
        yield from _of("PersistentVolumeClaim", claim, kept)


def _is_shared(found: Object) -> bool:
    """Whether it has other owners too. It would outlive the resource, with its pods."""
    return len(found["metadata"].get("ownerReferences") or ()) > 1


def _of(
    kind: str, found: Object | None, wanted: dict[str, str], *, shared: bool = False
) -> Iterator[LabelDrift]:
    if found is None or "deletionTimestamp" in found["metadata"]:
        return
    meta = found["metadata"]
    there = meta.get("labels") or {}
    wrong = {key: value for key, value in wanted.items() if there.get(key) != value}
    if wrong or shared:
        labels = tuple(sorted(wrong.items()))
        yield LabelDrift(kind, meta["name"], meta["uid"], labels, shared)
