"""The PodDisruptionBudget: a drain never takes the majority away, and waits for nobody but for it."""

from typing import Any

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_NAME, Owner, metadata

KIND = "PodDisruptionBudget"


def build(owner: Owner, least_ready: int) -> dict[str, Any]:
    """So many pods stay ready. A member that is not ready may be evicted: it can't get worse."""
    return {
        "apiVersion": "policy/v1",
        "kind": KIND,
        "metadata": metadata(owner, owner.name),
        "spec": {
            "minAvailable": least_ready,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {
                "matchLabels": {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}
            },
        },
    }


def floor_of(found: dict[str, Any] | None) -> int | None:
    """The number on a budget as it is; None where it has none."""
    told = (found or {}).get("spec", {}).get("minAvailable")
    return told if isinstance(told, int) else None
