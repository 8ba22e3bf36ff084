"""Identity ConfigMaps that are copied, replaced or annotated: the quorum keeps running, and no pod restarts."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.desired import names
from support.in_memory_kube_api import (
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconcile,
    running_quorum,
)
from support.secured_quorum import Env

Object = dict[str, Any]
IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
LATER = {"formed": "true"}
UNFORMED = {"formed": "false"}
ANOTHER = {"clusterId": "c9"}


def copied(api: InMemoryKubeApi, index: int, data: Object, *, owned: bool = True) -> str:
    found = copy.deepcopy(api.objects[IDENTITY])
    found["metadata"].update(name=f"demo-identity-{index}", uid=f"uid-of-{index}")
    if not owned:
        del found["metadata"]["ownerReferences"]
    found["data"].update(data)
    path = f"{IDENTITY}-{index}"
    api.objects[path] = found
    return path


def running(api: InMemoryKubeApi) -> list[int]:
    return [
        each["spec"]["replicas"] for path, each in api.objects.items() if "/statefulsets/" in path
    ]


def restarts(api: InMemoryKubeApi) -> list[tuple[str, str]]:
    return [
        (verb, path)
        for verb, path in api.writes
        if "/statefulsets/" in path or (verb == "delete" and "/pods/" in path)
    ]


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("data", [LATER, UNFORMED, {**UNFORMED, **ANOTHER}])
@pytest.mark.parametrize("index", [2, 7])
def test_copied_identity_with_a_later_number_stops_no_member(
    index: int, data: Object, recorded: bool, owned: bool
) -> None:
    """`recorded`: whether the quorum's own identity is still annotated as formed."""
    api = running_quorum(3)
    if not recorded:
        api.objects[IDENTITY]["metadata"]["annotations"] = {}
    path = copied(api, index, data, owned=owned)
    before = copy.deepcopy(api.objects[path]["data"])
    reconcile(api, times=6)
    assert (running(api), restarts(api)) == ([1, 1, 1], [])
    assert api.status["phase"] == "Ready"
    assert api.objects[path]["data"] == before, "the object of another application was changed"
    if recorded:
        condition = api.condition("ForeignObjects")
        assert condition["status"] == "True"
        assert f"ConfigMap/demo-identity-{index}" in condition["message"]


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("recorded", [True, False])
def test_copied_identity_stops_no_member_while_no_node_answers(recorded: bool) -> None:
    api = running_quorum(3)
    if not recorded:
        api.objects[IDENTITY]["metadata"]["annotations"] = {}
    copied(api, 2, {**UNFORMED, **ANOTHER})
    reconcile(api, HealthyNodes(3, silent=(1, 2, 3)), times=6)
    assert (running(api), restarts(api)) == ([1, 1, 1], [])


@pytest.mark.requirement("OP-01")
def test_copy_beside_a_deleted_identity_is_not_used() -> None:
    api = running_quorum(3)
    copied(api, 2, {**UNFORMED, **ANOTHER})
    del api.objects[IDENTITY]
    reconcile(api, times=6)
    assert (running(api), restarts(api)) == ([1, 1, 1], [])
    assert api.objects[IDENTITY]["data"]["clusterId"] == "c1"
    assert api.status["phase"] == "Ready"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("recorded", [True, False])
def test_identity_of_another_cluster_is_replaced_by_the_right_one(recorded: bool) -> None:
    """Its data is immutable: it was deleted, and another one of that name created."""
    api = running_quorum(3)
    api.objects[IDENTITY]["data"].update(ANOTHER)
    if not recorded:
        api.objects[IDENTITY]["metadata"]["annotations"] = {}
    reconcile(api, times=6)
    found = api.objects[IDENTITY]["data"]
    assert (found["clusterId"], found["formed"]) == ("c1", "true")
    assert (running(api), restarts(api)) == ([1, 1, 1], [])
    assert api.status["phase"] == "Ready"
    assert api.condition("IdentityMissing")["status"] == "False"


def without_policy(found: Object) -> None:
    del found["data"]["networkPolicy"]


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("spec", [{}, {"mode": "Managed"}])
@pytest.mark.parametrize("stage", [None, "Plain", "Accepting", "nonsense"])
def test_identity_without_tls_reverts_no_member_to_clear_text(
    stage: str | None, spec: Object
) -> None:
    env = Env(running_quorum(3, tls=True))
    if spec:
        env.api.change_spec(tls=spec)
    env.settle()
    sets = {path: each for path, each in env.api.objects.items() if "/statefulsets/" in path}
    before = copy.deepcopy({path: each["spec"] for path, each in sets.items()})
    del env.api.objects[IDENTITY]["data"]["tls"]
    if stage is not None:
        env.api.objects[IDENTITY]["metadata"]["annotations"][names.ANNOTATION_TLS_STAGE] = stage
    env.api.writes.clear()
    env.looks(6)
    assert {path: env.api.objects[path]["spec"] for path in before} == before
    assert restarts(env.api) == []
    assert env.ready()["status"] == "True"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("recorded", ["data", "Closed", "Dialling"])
def test_identity_with_tls_closes_no_clear_text_quorum(recorded: str) -> None:
    """Its brokers and clients would be cut off at once, without a migration."""
    api = running_quorum(3)
    before = copy.deepcopy(
        {path: each["spec"] for path, each in api.objects.items() if "/statefulsets/" in path}
    )
    if recorded == "data":
        api.objects[IDENTITY]["data"]["tls"] = "Managed"
    else:
        api.objects[IDENTITY]["metadata"]["annotations"][names.ANNOTATION_TLS_STAGE] = recorded
    reconcile(api, times=6)
    assert {path: api.objects[path]["spec"] for path in before} == before
    assert restarts(api) == []
    assert api.status["phase"] == "Ready"


@pytest.mark.requirement("OP-01")
def test_identity_without_network_policy_does_not_remove_it() -> None:
    api = running_quorum(3)
    for path, each in api.objects.items():
        if "/statefulsets/" in path:
            notes = each["spec"]["volumeClaimTemplates"][0]["metadata"]["annotations"]
            notes[names.ANNOTATION_NETWORK_POLICY] = "true"
    policies = [path for path in api.objects if "/networkpolicies/" in path]
    assert policies
    without_policy(api.objects[IDENTITY])
    reconcile(api, times=6)
    assert [path for path in api.objects if "/networkpolicies/" in path] == policies


CHANGES: dict[str, Callable[[Object], object]] = {
    "another founder": lambda found: found["data"].update(founderId="7", founderUuid="U7"),
    "more voters": lambda found: found["data"].update(initialVoters="9"),
    "no voters": lambda found: found["data"].update(initialVoters="-1"),
    "not formed": lambda found: found["metadata"].update(annotations={}),
}


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_identity_edits_restart_no_pod(
    change: Callable[[Object], object],
) -> None:
    api = running_quorum(3)
    change(api.objects[IDENTITY])
    reconcile(api, times=6)
    assert (running(api), restarts(api)) == ([1, 1, 1], [])
    assert api.status["phase"] == "Ready"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("tls", [True, False])
def test_adopted_claims_keep_their_certificates_and_network_policy(tls: bool) -> None:
    """The resource was deleted and applied again: only the claims are left, and a person adopts them."""
    api = running_quorum(3, tls=tls)
    env = Env(api) if tls else None
    claims = {
        path: each for path, each in api.objects.items() if "/persistentvolumeclaims/" in path
    }
    for each in claims.values():
        each["metadata"].setdefault("annotations", {})[names.ANNOTATION_NETWORK_POLICY] = "true"
    if env is not None:
        env.settle()
    else:
        reconcile(api, times=6)
    marked = {path: api.objects[path] for path in claims}
    for each in marked.values():
        assert (names.ANNOTATION_TLS in each["metadata"]["annotations"]) == tls
    left = (
        api.resource_path,
        *marked,
        *(path for path in api.objects if "/namespaces/" not in path),
    )
    api.objects = {path: each for path, each in api.objects.items() if path in left}
    api.resource["metadata"]["uid"] = "uid-of-the-next"
    api.resource["status"] = {}
    api.change_spec(earlierClaims={"policy": "Adopt", "clusterId": "c1"})
    if env is not None:
        env.looks(3)
    else:
        reconcile(api, times=6)
    found = api.objects[IDENTITY]["data"]
    assert (found["clusterId"], found["formed"], found["networkPolicy"]) == ("c1", "true", "true")
    assert found.get("tls") == ("Managed" if tls else None)


def test_claims_without_annotations_get_back_what_the_quorum_was_formed_with() -> None:
    """Else the quorum has no NetworkPolicy after the resource was deleted, applied again and has adopted its claims."""
    api = running_quorum(3)
    api.objects[IDENTITY]["data"] |= {"networkPolicy": "true", "defaults": "resources,zones"}
    claims = [path for path in api.objects if "/persistentvolumeclaims/" in path]
    for path in claims:
        api.objects[path]["metadata"]["annotations"] = {}
    reconcile(api, times=3)
    for path in claims:
        notes = api.objects[path]["metadata"]["annotations"]
        assert notes[names.ANNOTATION_NETWORK_POLICY] == "true"
        assert notes[names.ANNOTATION_DEFAULTS] == "resources,zones"
