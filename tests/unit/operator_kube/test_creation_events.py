"""Why a StatefulSet has no pod, by the events of its controller."""

from typing import Any

import pytest

from quorum_operator.kube.creation_events import needs_events, not_made

POD_QUOTA = (
    'create Pod q-3-1-0 in StatefulSet q-3-1 failed error: pods "q-3-1-0" is forbidden: exceeded quota: few-pods,'
    " requested: pods=1, used: pods=2, limited: pods=2"
)
CLAIM_QUOTA = (
    "create Claim data-q-3-1-0 for Pod q-3-1-0 in StatefulSet q-3-1 failed error: persistentvolumeclaims"
    ' "data-q-3-1-0" is forbidden: exceeded quota: small, requested: requests.storage=1Gi, used: 2Gi, limited: 2Gi'
)
NO_LIMITS = (
    'create Pod q-3-1-0 in StatefulSet q-3-1 failed error: pods "q-3-1-0" is forbidden: failed quota: strict: must'
    " specify limits.memory for: node"
)
POLICY = (
    'create Pod q-3-1-0 in StatefulSet q-3-1 failed error: pods "q-3-1-0" is forbidden: violates PodSecurity'
    ' "restricted:latest": seccompProfile'
)
WEBHOOK = (
    "create Pod q-3-1-0 in StatefulSet q-3-1 failed error: admission webhook"
    ' "images.example.com" denied the request: not signed'
)
WRONG = (
    'create Pod q-3-1-0 in StatefulSet q-3-1 failed error: Pod "q-3-1-0" is invalid: spec.tolerations[0].key:'
    " Invalid value"
)


def event(reason: str, message: str, second: int) -> dict[str, Any]:
    at = f"2026-01-02T03:04:{second:02}Z"
    return {
        "metadata": {"creationTimestamp": "2026-01-02T03:00:00Z"},
        "reason": reason,
        "message": message,
        "firstTimestamp": "2026-01-02T03:00:00Z",
        "lastTimestamp": at,
    }


def failed(message: str, second: int = 30) -> dict[str, Any]:
    return event("FailedCreate", message, second)


def made(second: int) -> dict[str, Any]:
    message = "create Pod q-3-1-0 in StatefulSet q-3-1 successful"
    return event("SuccessfulCreate", message, second)


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        (POD_QUOTA, "QuotaExceeded", ("exceeded quota: few-pods", "Raise the ResourceQuota")),
        (CLAIM_QUOTA, "QuotaExceeded", ("data-q-3-1-0", "quota: small", "Raise the ResourceQuota")),
        (NO_LIMITS, "QuotaExceeded", ("must specify limits.memory", "request less in the spec")),
        (POLICY, "AdmissionDenied", ("PodSecurity", "Change the policy")),
        (WEBHOOK, "AdmissionDenied", ("images.example.com", "Change the policy")),
        (WRONG, "Invalid", ("spec.tolerations[0].key", "Correct the spec")),
    ],
)
@pytest.mark.requirement("OP-01")
def test_creation_failure_is_reported_with_reason_and_remedy(
    message: str, reason: str, words: tuple[str, ...]
) -> None:
    found = not_made([failed(message)])
    assert found is not None
    assert found.reason == reason
    assert "in StatefulSet q-3-1 failed" not in found.message, "the cause comes first"
    for word in words:
        assert word in found.message


@pytest.mark.requirement("OP-01")
def test_last_creation_failure_counts_only_until_an_object_was_created() -> None:
    found = not_made([failed(POLICY, 10), failed(POD_QUOTA, 20), made(5)])
    assert found is not None
    assert found.reason == "QuotaExceeded"
    assert not_made([failed(POD_QUOTA, 20), made(21)]) is None
    assert not_made([failed(CLAIM_QUOTA, 20), made(20)]) is not None
    assert not_made([made(5)]) is None
    assert not_made([]) is None


@pytest.mark.requirement("OP-01")
def test_events_are_read_only_where_a_pod_is_missing() -> None:
    owned: dict[str, Any] = {"metadata": {"name": "q-3-1"}, "spec": {"replicas": 1}}
    assert needs_events(owned, None)
    assert not needs_events(owned, {"metadata": {}})
    assert not needs_events({**owned, "spec": {"replicas": 0}}, None)
    going = {"name": "q-3-1", "deletionTimestamp": "2026-01-02T03:04:05Z"}
    assert not needs_events({**owned, "metadata": going}, None)
