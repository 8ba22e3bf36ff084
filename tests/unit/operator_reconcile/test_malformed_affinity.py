"""A `spec.affinity` that is none: the definition lets any object through, and the API server rejects the template with it."""

from typing import Any

import pytest

from support.in_memory_kube_api import NAME, SPACE, HealthyNodes, reconciler, running_quorum


def required(terms: Any) -> dict[str, Any]:
    reported = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": reported}}


MALFORMED: dict[str, dict[str, Any]] = {
    "text": {"nodeAffinity": "ssd"},
    "an object for a list": required({"matchExpressions": []}),
    "a text for a term": required(["ssd"]),
    "a text for an expression": required([{"matchExpressions": "disk=ssd"}]),
    "no value": required([{"matchExpressions": [{"key": "n", "operator": "Gt", "values": []}]}]),
    "a number for a list": required([{"matchExpressions": [{"operator": "In", "values": 5}]}]),
}


@pytest.mark.parametrize("affinity", MALFORMED.values(), ids=MALFORMED.keys())
async def test_it_ends_no_reconcile(affinity: dict[str, Any]) -> None:
    """Where members may not share a host, their number is compared with the hosts before anything is sent."""
    api = running_quorum(3, spread="Required")
    made = reconciler(api, HealthyNodes(3))
    await made.reconcile(SPACE, NAME)
    api.change_spec(replicas=5, affinity=affinity)
    for _ in range(3):
        await made.reconcile(SPACE, NAME)
    assert api.condition("Refused")["reason"] != "InternalError"
    assert api.status["observedGeneration"] == 2
