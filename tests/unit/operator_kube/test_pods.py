"""Which pods of a quorum are queried, and in which order."""

from typing import Any

from quorum_operator.kube.pods import addresses


def pod(name: str, *, phase: str = "Running", ready: bool = True, **meta: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **meta},
        "status": {
            "phase": phase,
            "podIP": f"ip-{name}",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def test_ready_pods_are_listed_first_and_terminated_pods_are_omitted() -> None:
    pods = [
        pod("a", ready=False),
        pod("c"),
        pod("b"),
        pod("evicted", phase="Failed", ready=False),
        pod("done", phase="Succeeded", ready=False),
        pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z"),
        {"metadata": {"name": "new"}, "status": {"phase": "Pending"}},
    ]
    assert addresses(pods) == ["ip-b", "ip-c", "ip-a"]
