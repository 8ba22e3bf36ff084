"""A StatefulSet that is created again for a claim with the note of a recovery: the recovery is carried out only if it still may be."""

from typing import Any

import pytest

from quorum_node.records.identity import uuid_text
from quorum_node.survivor import parse_survivor
from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
)

UUID = "A" * 22
SURVIVOR = f"{UUID}:4:9"
RECOVERED = uuid_text(parse_survivor(SURVIVOR).recovered_uuid)
ACCEPTED = {"id": 3, "uuid": UUID, "epoch": 4, "endOffset": 9}


def without_set_3(uuid: str, **spec: Any) -> InMemoryKubeApi:
    """A recovery from member 3 had begun when its StatefulSet was deleted."""
    api = running_quorum(3, **spec)
    claim = paths.namespaced("persistentvolumeclaims", SPACE, "data-demo-3-1-0")
    api.objects[claim]["metadata"]["annotations"] = {
        names.ANNOTATION_UUID: uuid,
        names.ANNOTATION_CLUSTER_ID: "c1",
        names.ANNOTATION_RESOURCE_UID: OWNER.uid,
        names.ANNOTATION_FORMATION: "1",
        names.ANNOTATION_RECOVERY: SURVIVOR,
    }
    del api.objects[set_path(3)], api.objects[pod_path(3)]
    return api


class NoLeader(HealthyNodes):
    """No majority confirms a leader, and no process answers."""

    async def report(self, ip: str, node_id: int) -> None:
        return None

    async def describe(self, ips: list[str]) -> Any:
        return await super().describe([])


def arguments(api: InMemoryKubeApi) -> list[str]:
    found: list[str] = api.objects[set_path(3)]["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


@pytest.mark.parametrize(
    ("uuid", "accepted", "recovers"),
    [(UUID, True, True), (UUID, False, False), (RECOVERED, False, True)],
    ids=["accepted", "taken back", "carried out"],
)
def test_without_a_leader_it_recovers_only_while_the_user_accepts_that(
    uuid: str, accepted: bool, recovers: bool
) -> None:
    api = without_set_3(uuid, **({"recovery": ACCEPTED} if accepted else {}))
    reconcile(api, NoLeader(3), times=1)
    assert api.created("statefulsets") == ["demo-3-1"]
    assert ("--recover" in arguments(api)) == recovers
    note = api.objects[set_path(3)]["metadata"]["annotations"][names.ANNOTATION_RECOVERY]
    assert note == (SURVIVOR if recovers else f"{SURVIVOR} given up")


def test_beside_a_leader_it_never_recovers() -> None:
    api = without_set_3("U3", recovery=ACCEPTED)
    reconcile(api, HealthyNodes(3), times=1)
    assert api.created("statefulsets") == ["demo-3-1"]
    assert "--recover" not in arguments(api)
