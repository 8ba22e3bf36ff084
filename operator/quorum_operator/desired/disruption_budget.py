"""The PodDisruptionBudget: a drain takes one member at a time, and only while all are well."""

from typing import Any

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_NAME, Owner, metadata


def build(owner: Owner) -> dict[str, Any]:
    """One member may be away. A member that is not ready may be evicted: it can't get worse."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, owner.name),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {
                "matchLabels": {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}
            },
        },
    }
