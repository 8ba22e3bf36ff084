"""Everything that belongs to a quorum but to no member: what it is, and whether it is current."""

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
    """The config, the Services, the disruption budget and the network policy, annotated with their content's hash.
    `stage`: what members are told of certificates. Those that take both are told by their own arguments, not by the config:
    a container that starts again while the stage changes has what its pod was made for. `identity`: of the newest formation; it
    says which configuration is proven. `drain_floor`: what the disruption budget has, which follows the voters (planner/drains.py)."""
    secured = stage is TlsStage.CLOSED
    shared = revision.for_member(spec, identity, None).config or {}
    candidate = (spec.config or {}) if spec.update is not None else None
    floor = least_ready(spec.replicas, spec.replicas) if drain_floor is None else drain_floor
    built = [
        config.build(
            owner, shared, secured=secured, candidate=candidate, revoking=tls.revokes(spec)
        ),
        services.build_nodes(owner, stage),
        services.build_admin(owner, stage),
        services.build_bootstrap(owner),
        disruption_budget.build(owner, floor),
        network_policy.build(owner, spec, stage),
    ]
    for each in built:
        digest = _digest(each)
        each["metadata"]["annotations"] = {ANNOTATION_CONTENT: digest}
    return built


def _digest(built: Object) -> str:
    """Of the content, but for what changes with the voters."""
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
