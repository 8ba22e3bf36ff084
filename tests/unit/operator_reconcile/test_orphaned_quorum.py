"""`kubectl delete --cascade=orphan` of a quorum with certificates, and `kubectl apply` again: it keeps its certificates."""

import copy
from typing import Any

import pytest

from support.in_memory_kube_api import OWNER, running_quorum
from support.secured_quorum import TRUST, Env, leaf_in, leaf_path, secret_path

Object = dict[str, Any]
NEXT = "uid-of-the-next"
ADOPT = {"policy": "Adopt", "clusterId": "c1"}


def orphaned() -> Env:
    """The resource was applied again, and nothing has an owner."""
    env = Env(running_quorum(3, tls=True))
    env.settle()
    for path, each in env.api.objects.items():
        if path != env.api.resource_path:
            each["metadata"].pop("ownerReferences", None)
    env.api.resource["metadata"]["uid"] = NEXT
    env.api.resource["status"] = {}
    env.api.writes.clear()
    return env


def certificate_objects(env: Env) -> dict[str, Object]:
    wanted = (TRUST, secret_path("demo-ca-1"), *(leaf_path(each) for each in (1, 2, 3)))
    return {path: env.api.objects[path] for path in wanted}


@pytest.mark.requirement("OP-01")
def test_adopted_quorum_continues_with_its_certificates() -> None:
    env = orphaned()
    before = copy.deepcopy(certificate_objects(env))
    sets = {
        path: copy.deepcopy(each["spec"])
        for path, each in env.api.objects.items()
        if "/statefulsets/" in path
    }
    env.api.change_spec(earlierClaims=ADOPT)
    env.settle()
    assert env.api.status["phase"] == "Ready"
    for path, each in certificate_objects(env).items():
        assert [one["uid"] for one in each["metadata"]["ownerReferences"]] == [NEXT], path
    assert certificate_objects(env)[secret_path("demo-ca-1")]["data"] == before[secret_path("demo-ca-1")]["data"]  # fmt: skip
    for node_id in (1, 2, 3):
        path = leaf_path(node_id)
        assert leaf_in(env.api.objects[path]).fingerprint == leaf_in(before[path]).fingerprint
    assert {path: env.api.objects[path]["spec"] for path in sets} == sets, (
        "a StatefulSet was changed"
    )


@pytest.mark.requirement("OP-01")
def test_nothing_of_an_orphaned_quorum_is_adopted_without_a_decision() -> None:
    env = orphaned()
    before = copy.deepcopy(certificate_objects(env))
    env.looks(4)
    assert certificate_objects(env) == before
    assert env.api.condition("ClaimsInDoubt")["status"] == "True"


@pytest.mark.requirement("OP-01")
def test_secret_of_another_owner_is_never_adopted() -> None:
    env = orphaned()
    other = {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "uid-of-x"}
    ca = env.api.objects[secret_path("demo-ca-1")]
    ca["metadata"]["ownerReferences"] = [other]
    env.api.change_spec(earlierClaims=ADOPT)
    env.looks(4)
    assert env.api.objects[secret_path("demo-ca-1")]["metadata"]["ownerReferences"] == [other]
    assert OWNER.name == "demo"
