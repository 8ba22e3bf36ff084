"""Foreign objects with a member's name: reported, never used, and their numbers skipped."""

import asyncio

import pytest

from quorum_operator.desired.names import ANNOTATION_CLUSTER_ID
from quorum_operator.kube import paths
from quorum_operator.quorum_client import Described
from support.in_memory_kube_api import (
    NAME,
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconcile,
    reconciler,
    running_quorum,
    set_path,
)

FOREIGN = set_path(4)
IDENTITY = paths.namespaced("configmaps", SPACE, f"{NAME}-identity")
ALL = (IDENTITY, *map(set_path, (1, 2, 3)))


class LeaderlessNodes(HealthyNodes):
    """No majority confirms a leader."""

    async def describe(self, ips: list[str]) -> Described:
        return Described(None, None)


def give_away(api: InMemoryKubeApi) -> None:
    """Everything belongs to another object, and the status is empty."""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    for path in ALL:
        api.objects[path]["metadata"]["ownerReferences"] = [other]
    api.resource["status"] = {}


def owner_uids(api: InMemoryKubeApi) -> set[str]:
    return {
        each["uid"] for path in ALL for each in api.objects[path]["metadata"]["ownerReferences"]
    }


def put_foreign(api: InMemoryKubeApi, path: str) -> None:
    name = path.rpartition("/")[2]
    owner = {"kind": "Deployment", "name": "theirs", "uid": "other", "controller": True}
    api.objects[path] = {
        "metadata": {
            **api.objects[set_path(1)]["metadata"],
            "name": name,
            "uid": f"uid-{name}",
            "labels": {},
            "ownerReferences": [owner],
        },
        "spec": {"replicas": 1, "containers": [], "template": {}},
    }


def reconciled(api: InMemoryKubeApi, *, first_look: bool) -> None:
    async def run() -> None:
        operator = reconciler(api, HealthyNodes(3))
        if first_look:
            await operator.reconcile(SPACE, NAME)
        put_foreign(api, FOREIGN)
        api.change_spec(retire=[3])
        for _ in range(4):
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())


@pytest.mark.parametrize("first_look", [False, True], ids=["was there", "came later"])
@pytest.mark.requirement("OP-01")
def test_foreign_stateful_set_is_reported_and_its_number_is_skipped(first_look: bool) -> None:
    api = running_quorum()
    reconciled(api, first_look=first_look)
    assert api.created("statefulsets")[-1] == f"{NAME}-4-2"
    assert api.objects[FOREIGN]["metadata"]["labels"] == {}
    condition = api.condition("ForeignObjects")
    assert (condition["status"], condition["reason"]) == ("True", "NamesTaken")
    assert f"StatefulSet/{NAME}-4-1 (Deployment/theirs)" in condition["message"]


@pytest.mark.requirement("OP-01")
async def test_existing_unlabelled_claim_is_not_used_for_a_new_member() -> None:
    api = running_quorum()
    claim = paths.namespaced("persistentvolumeclaims", SPACE, f"data-{NAME}-4-1-0")
    operator = reconciler(api, HealthyNodes(3))
    await operator.reconcile(SPACE, NAME)
    first = f"data-{NAME}-1-1-0"
    body = api.objects[paths.namespaced("persistentvolumeclaims", SPACE, first)]
    meta = {**body["metadata"], "name": f"data-{NAME}-4-1-0", "uid": "old", "labels": {}}
    api.objects[claim] = {**body, "metadata": {**meta, "annotations": {}}}
    api.change_spec(retire=[3])
    for _ in range(4):
        await operator.reconcile(SPACE, NAME)
    assert f"{NAME}-4-1" not in api.created("statefulsets")
    assert f"{NAME}-4-2" in api.created("statefulsets")


@pytest.mark.parametrize("status", [{}, {"clusterId": "c9"}], ids=["empty", "edited"])
def test_members_given_away_are_taken_back_without_status_and_leader(
    status: dict[str, str],
) -> None:
    """Their immutable claim templates name the resource that they were created for."""
    api = running_quorum()
    give_away(api)
    api.resource["status"] = status
    reconcile(api, LeaderlessNodes(3), times=8)
    assert owner_uids(api) == {OWNER.uid}
    assert api.condition("ClaimsInDoubt")["status"] == "False"


def test_members_given_away_are_taken_back_although_the_spec_names_another_cluster() -> None:
    api = running_quorum(earlierClaims={"policy": "Adopt", "clusterId": "somebody-elses"})
    give_away(api)
    reconcile(api, LeaderlessNodes(3), times=8)
    assert owner_uids(api) == {OWNER.uid}


def test_members_of_an_earlier_resource_wait_for_a_decision() -> None:
    api = running_quorum()
    give_away(api)
    api.resource["metadata"]["uid"] = "uid-of-the-next"
    reconcile(api, LeaderlessNodes(3), times=8)
    assert owner_uids(api) == {"other"}
    assert api.condition("ClaimsInDoubt")["reason"] == "EarlierResource"


def test_members_of_two_clusters_wait_for_a_decision() -> None:
    """Those of a formation that was given up name another cluster id."""
    api = running_quorum()
    give_away(api)
    (template,) = api.objects[set_path(3)]["spec"]["volumeClaimTemplates"]
    template["metadata"]["annotations"][ANNOTATION_CLUSTER_ID] = "c2"
    reconcile(api, LeaderlessNodes(3), times=8)
    assert owner_uids(api) == {"other"}
    assert api.condition("ClaimsInDoubt")["status"] == "True"
