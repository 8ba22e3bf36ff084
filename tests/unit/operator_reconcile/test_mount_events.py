"""Events about volumes, by the real reconcile: a pod of a network volume moved to another host, and still pulls its image."""

import asyncio
from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconciler,
    running_quorum,
    set_path,
    time_text,
)

pytestmark = pytest.mark.requirement("OP-04")
AGE_S = 60.0
OWN = 'MountVolume.SetUp failed for volume "pv3" : mount failed: exit status 32: bad superblock'
MULTI_ATTACH = 'Multi-Attach error for volume "pv3" Volume is already used by pod(s) demo-3-1-0'
CONFIG = 'MountVolume.SetUp failed for volume "config" : failed to sync configmap cache'


class ApiWithEvents(InMemoryKubeApi):
    """Events of pods as well; each by the pod's UID. A mark that does not exist must not be removed."""

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[dict[str, Any]]:
        key, _, value = (fields or "").partition("=")
        if key != "involvedObject.uid":
            return await super().find(path, labels=labels, fields=fields)
        return [each for each in self.pod_events if each["involvedObject"]["uid"] == value]

    async def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        notes = body.get("metadata", {}).get("annotations", {})
        assert notes.get(names.ANNOTATION_FAILED, "") is not None, f"{path}: nothing had failed"
        return await super().merge(path, body)

    @property
    def pod_events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.objects.get("events", {}).get("items", [])
        return found


def event(uid: str, reason: str, message: str, age_s: float) -> dict[str, Any]:
    return {
        "metadata": {"name": reason, "creationTimestamp": time_text(AGE_S)},
        "involvedObject": {"uid": uid},
        "reason": reason,
        "message": message,
        "firstTimestamp": time_text(AGE_S),
        "lastTimestamp": time_text(age_s),
    }


def moved(*reported: tuple[str, str, float]) -> ApiWithEvents:
    """Member 3 with a pod created a minute ago; `reported`: reason, message and age of its events."""
    api = running_quorum(3, repair={"debounceSeconds": 0})
    api.__class__ = ApiWithEvents
    assert isinstance(api, ApiWithEvents)
    api.objects[paths.volume("pv3")]["spec"] = {"csi": {"driver": "network"}}
    pod = api.objects[pod_path(3)]
    pod["metadata"]["creationTimestamp"] = time_text(AGE_S)
    pod["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
    }
    items = [event(pod["metadata"]["uid"], *each) for each in reported]
    api.objects["events"] = {"metadata": {"name": "events", "labels": {}}, "items": items}
    return api


def latched_by(api: InMemoryKubeApi) -> str | None:
    async def run() -> None:
        operator = reconciler(api, HealthyNodes(3, silent=(3,)))
        for _ in range(8):
            due = await operator.reconcile(SPACE, NAME)
            await asyncio.sleep(min(due.after_s or 0.05, 0.2))

    asyncio.run(run())
    found: str | None = api.objects[set_path(3)]["metadata"]["annotations"].get(
        names.ANNOTATION_FAILED
    )
    return found


def test_lasting_failure_of_the_data_volume_counts() -> None:
    text = latched_by(moved(("FailedMount", OWN, 1.0)))
    assert text is not None
    assert "VolumeNotMounted" in text
    assert "bad superblock" in text


@pytest.mark.parametrize(
    "reported",
    [
        [("FailedAttachVolume", MULTI_ATTACH, 1.0)],
        [("FailedAttachVolume", MULTI_ATTACH, 40.0), ("Pulling", "Pulling image", 5.0)],
        [("FailedMount", CONFIG, 1.0)],
        [("FailedMount", OWN, 20.0), ("Pulling", "Pulling image", 5.0)],
        [
            ("FailedMount", OWN, 20.0),
            ("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv3"', 9.0),
        ],
        [("FailedMount", OWN, 400.0)],
    ],
    ids=["attached elsewhere", "drained", "late ConfigMap", "pulls", "attached in the end", "old"],
)
def test_other_mount_events_condemn_no_disk(reported: list[tuple[str, str, float]]) -> None:
    api = moved(*reported)
    assert latched_by(api) is None
    found = next(each["condition"] for each in api.status["members"] if each["id"] == 3)
    stands = len(reported) == 1
    assert found == f"NotReady: {reported[0][1] if stands else 'ContainerCreating'}"
