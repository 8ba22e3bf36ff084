"""A quota rejects a member's pod of the StatefulSet controller: the real reconcile reports it in conditions and events."""

from typing import Any

import pytest

from support.in_memory_kube_api import (
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
    time_text,
)

pytestmark = pytest.mark.requirement("OP-01")
QUOTA = (
    'create Pod demo-3-1-0 in StatefulSet demo-3-1 failed error: pods "demo-3-1-0" is forbidden: exceeded quota:'
    " few-pods, requested: pods=1, used: pods=2, limited: pods=2"
)


class SetEvents(InMemoryKubeApi):
    """Events of StatefulSets; each by the UID of what it is about."""

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[dict[str, Any]]:
        key, _, uid = (fields or "").partition("=")
        if key != "involvedObject.uid":
            return await super().find(path, labels=labels, fields=fields)
        await self._called("list", path)
        return [self.event] if uid == self.event["involvedObject"]["uid"] else []

    @property
    def event(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "e", "creationTimestamp": time_text(3)},
            "involvedObject": {"uid": self.objects[set_path(3)]["metadata"]["uid"]},
            "reason": "FailedCreate",
            "message": QUOTA,
            "lastTimestamp": time_text(3),
        }


def without_pod() -> SetEvents:
    api = running_quorum()
    api.__class__ = SetEvents
    assert isinstance(api, SetEvents)
    del api.objects[pod_path(3)]
    return api


def reconciled(api: InMemoryKubeApi, times: int = 1, nodes: HealthyNodes | None = None) -> None:
    reconcile(api, nodes or HealthyNodes(3, silent=(3,)), times=times)


def test_exceeded_quota_is_named_in_the_conditions_and_in_one_event() -> None:
    api = without_pod()
    reconciled(api, 3)
    condition = api.condition("Refused")
    assert (condition["status"], condition["reason"]) == ("True", "QuotaExceeded")
    for word in ("StatefulSet/demo-3-1", "exceeded quota: few-pods", "Raise the ResourceQuota"):
        assert word in condition["message"]
    degraded = api.condition("Degraded")["message"]
    assert "3: NoPod: QuotaExceeded: " in degraded
    events = [each for each in api.events if each["reason"] == "PodRefused"]
    assert [each["type"] for each in events] == ["Warning"]
    assert "few-pods" in events[0]["message"]
    changed = {path.split("/")[-2] for _, path in api.writes}
    assert changed <= {"persistentvolumeclaims"}, (
        "a disk was reported as failed, or a pod restarted"
    )


def test_condition_is_removed_when_the_pod_exists() -> None:
    api = without_pod()
    kept = running_quorum().objects[pod_path(3)]
    reconciled(api)
    api.objects[pod_path(3)] = kept
    reconciled(api, nodes=HealthyNodes(3))
    assert api.condition("Refused")["status"] == "False"
    assert api.status["phase"] == "Ready"
