"""The objects of a quorum that belong to no single member, and whether they are current."""

import hashlib
import json
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import (
    config,
    disruption_budget,
    network_policy,
    revision,
    services,
    tls,
)
from quorum_operator.desired.formation_defaults import with_defaults
from quorum_operator.desired.names import ANNOTATION_CONTENT, Owner
from quorum_operator.planner.drains import least_ready
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.tls_stage import TlsStage

Object = dict[str, Any]

_COLLECTIONS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps/{}",
    "Service": "/api/v1/namespaces/{}/services/{}",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/{}",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}",
}


def build_all(
    owner: Owner,
    spec: MetadataQuorumSpec,
    stage: TlsStage = TlsStage.PLAIN,
    identity: Identity | None = None,
    drain_floor: int | None = None,
) -> list[Object]:
    """The ConfigMap, Services, disruption budget and network policy, annotated with a hash of their content.

    `stage`: of the TLS migration. Members that accept both TLS and clear text get it by arguments instead of the
    ConfigMap, so that a container that restarts during a change of the stage keeps the stage of its pod. `identity`:
    of the newest formation; it records the configuration that all members have run. `drain_floor`: the current value
    of the disruption budget, which depends on the voters (planner/drains.py).
    """
    secured = stage is TlsStage.CLOSED
    shared = with_defaults(revision.for_member(spec, identity, None), identity).config or {}
    candidate = (with_defaults(spec, identity).config or {}) if spec.update is not None else None
    floor = least_ready(spec.replicas, spec.replicas) if drain_floor is None else drain_floor
    built = [
        config.build(
            owner, shared, secured=secured, candidate=candidate, revoking=tls.revokes(spec)
        ),
        services.build_nodes(owner, stage),
        services.build_admin(owner, stage),
        services.build_bootstrap(owner),
        disruption_budget.build(owner, floor),
        network_policy.build(owner, spec, stage, formed=identity is not None and identity.formed),
    ]
    for each in built:
        digest = _digest(each)
        each["metadata"]["annotations"] = {ANNOTATION_CONTENT: digest}
    return built


def _digest(built: Object) -> str:
    """Hash of the content without the parts that depend on the voters."""
    fixed = {**built}
    if built["kind"] == disruption_budget.KIND:
        fixed["spec"] = {**built["spec"], "minAvailable": None}
    text = json.dumps(fixed, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def path_of(wanted: Object) -> str:
    """Its path in the Kubernetes API."""
    meta = wanted["metadata"]
    return _COLLECTIONS[wanted["kind"]].format(meta["namespace"], meta["name"])


def belongs_to(found: Object, owner: Owner) -> bool:
    """Whether the resource owns it."""
    references = found["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == owner.uid for each in references)


def is_ours(found: Object, owner: Owner) -> bool:
    """Whether the operator created it for a resource of this name: the resource owns it, or it has the operator's labels
    or annotation. Any other object of that name must not be overwritten: it may be the only copy of its data.
    """
    meta = found["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    marked = labels.items() >= owner.labels.items() or ANNOTATION_CONTENT in notes
    return marked or belongs_to(found, owner)
