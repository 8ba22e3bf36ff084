"""The PodDisruptionBudget: a drain never breaks the majority, and is not blocked for any other reason."""

from typing import Any

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_NAME, Owner, metadata

KIND = "PodDisruptionBudget"


def build(owner: Owner, least_ready: int) -> dict[str, Any]:
    """The budget with `minAvailable`. A member that is not ready may always be evicted."""
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
    """The current `minAvailable` of a budget; None if it has none."""
    floor = (found or {}).get("spec", {}).get("minAvailable")
    return floor if isinstance(floor, int) else None
