"""Kubernetes objects as the API server gives them → the planner's facts."""

from typing import Any

from quorum_operator.kube import facts
from quorum_operator.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, classify
from quorum_operator.planner.observed import FailureLatch

ENDED = {
    "exitCode": 74,
    "reason": "Error",
    "finishedAt": "2026-01-02T03:04:05Z",
    "message": '{"reason": "StorageFailed", "message": "EIO on append", "nodeId": 3}',
}


def pod(state: dict[str, Any], last: dict[str, Any], ready: str = "False") -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-01-02T03:00:00Z"},
        "spec": {"nodeName": "h1"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:04:06Z"}
            ],
            "containerStatuses": [{"state": state, "lastState": last}],
        },
    }


def test_exit_code_is_read_from_waiting_and_running_containers() -> None:
    states: tuple[dict[str, Any], ...] = (
        {"waiting": {"reason": "CrashLoopBackOff"}},
        {"running": {}},
    )
    for state in states:
        seen = facts.pod_facts(pod(state, {"terminated": ENDED}), None)
        assert seen.exit_code == 74
        assert seen.exit_message == "StorageFailed: EIO on append"
        assert seen.running == ("running" in state)
    seen = facts.pod_facts(pod({"terminated": ENDED}, {}), None)
    assert seen.exit_code == 74
    assert seen.exit_at == facts.seconds("2026-01-02T03:04:05Z")
    assert seen.not_ready_since == facts.seconds("2026-01-02T03:04:06Z")


def test_ready_pod_is_parsed() -> None:
    seen = facts.pod_facts(pod({"running": {}}, {}, ready="True"), None)
    assert (seen.ready, seen.exit_code, seen.not_ready_since) == (True, None, None)


def test_failure_latch_survives_an_edited_annotation() -> None:
    latch = FailureLatch("StorageFailed", "EIO", 12.5, 11.0)
    assert facts.latch_facts(facts.latch_text(latch)) == latch
    assert facts.latch_facts(None) is None
    for odd in ("yes", "{}", "[]", '{"reason": 1}'):
        found = facts.latch_facts(odd)
        assert found is not None
        assert found.reason == "Failed"


def test_recovery_and_its_end_survive_in_the_annotation_and_invalid_values_are_ignored() -> None:
    text = "AAAAAAAAAAAAAAAAAAAAAQ:4:17"
    for given_up in (False, True):
        found, reported = facts.recovery_facts(facts.recovery_text(text, given_up=given_up))
        assert (str(found), reported) == (text, given_up)
    for odd in (None, "", "yes", f"{text}:1", "x:4:17"):
        assert facts.recovery_facts(odd) == (None, False)


def test_api_errors_are_distinguished() -> None:
    assert isinstance(classify(409, "AlreadyExists", ""), AlreadyExists)
    assert isinstance(classify(409, "Conflict", ""), Conflict)
    assert isinstance(classify(404, "NotFound", ""), NotFound)
    message = 'PersistentVolumeClaim "data-q-1-1-0" is invalid: metadata.uid: Invalid value: field is immutable'
    assert isinstance(classify(422, "Invalid", message), Conflict)
    assert isinstance(classify(422, "Invalid", "spec.replicas: wrong"), Invalid)
    failed_test = "the server rejected our request: testing value in patch failed: test failed"
    assert isinstance(classify(422, "Invalid", failed_test), Conflict)
    without_details = "the server rejected our request due to an error in our request"
    assert isinstance(classify(422, "Invalid", without_details), Conflict)


def test_only_persistent_finalizers_count_as_blocking_deletion() -> None:
    meta = {"finalizers": ["foregroundDeletion", "a.example/hold"]}
    assert facts.held_by(meta) == ()
    assert facts.held_by({**meta, "deletionTimestamp": "2026-01-02T03:04:05Z"}) == (
        "a.example/hold",
    )


def test_volume_smaller_than_its_claim_requests_is_being_expanded() -> None:
    def claim(has: str | None, *conditions: dict[str, str]) -> dict[str, Any]:
        capacity = {} if has is None else {"capacity": {"storage": has}}
        return {
            "metadata": {"name": "data-q-1-1-0", "uid": "u"},
            "spec": {"resources": {"requests": {"storage": "2Gi"}}},
            "status": {"phase": "Bound", "conditions": list(conditions), **capacity},
        }

    def expansion(*arguments: Any) -> str | None:
        return facts.claim_facts(claim(*arguments)).expansion

    failed = {"type": "ControllerResizeError", "status": "True", "message": "no room"}
    pending = {"type": "FileSystemResizePending", "status": "True"}
    over = {"type": "Resizing", "status": "False"}
    other = {"type": "ModifyingVolume", "status": "True"}
    assert expansion("1024Mi") == "has 1024Mi"
    assert expansion("1Gi", failed, pending, over, other) == (
        "has 1Gi, ControllerResizeError: no room, FileSystemResizePending"
    )
    for enough in ("2Gi", "2048Mi", "3Gi", None, "odd"):
        assert expansion(enough, pending) is None
