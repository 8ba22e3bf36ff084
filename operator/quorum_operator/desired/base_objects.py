"""Everything that belongs to a quorum but to no member: what it is, and whether it is current."""

import hashlib
import json
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import config, disruption_budget, network_policy, services
from quorum_operator.desired.names import ANNOTATION_CONTENT, Owner

Object = dict[str, Any]

_COLLECTIONS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps/{}",
    "Service": "/api/v1/namespaces/{}/services/{}",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/{}",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}",
}


def build_all(owner: Owner, spec: MetadataQuorumSpec, *, secured: bool = False) -> list[Object]:
    """The config, the Services, the disruption budget and the network policy, annotated with their content's hash.
    `secured`: the members have certificates."""
    built = [
        config.build(owner, spec.config or {}, secured=secured),
        services.build_nodes(owner, secured=secured),
        services.build_admin(owner, secured=secured),
        services.build_bootstrap(owner),
        disruption_budget.build(owner),
        network_policy.build(owner, spec, secured=secured),
    ]
    for each in built:
        text = json.dumps(each, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        each["metadata"]["annotations"] = {ANNOTATION_CONTENT: digest}
    return built


def path_of(wanted: Object) -> str:
    """Its path in the Kubernetes API."""
    meta = wanted["metadata"]
    return _COLLECTIONS[wanted["kind"]].format(meta["namespace"], meta["name"])


def belongs_to(found: Object, owner: Owner) -> bool:
    """Whether the resource owns it."""
    references = found["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == owner.uid for each in references)
