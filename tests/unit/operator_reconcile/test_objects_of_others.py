"""Objects of other applications that have the name of one that the quorum needs: told, and left exactly as they are."""

import copy
import time
from itertools import count
from typing import Any

import pytest

from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconcile,
    repeat,
    running_quorum,
)

PATHS = {
    "ConfigMap/demo-config": f"/api/v1/namespaces/{SPACE}/configmaps/demo-config",
    "Secret/demo-admin": f"/api/v1/namespaces/{SPACE}/secrets/demo-admin",
    "Service/demo-admin": f"/api/v1/namespaces/{SPACE}/services/demo-admin",
    "Service/demo-nodes": f"/api/v1/namespaces/{SPACE}/services/demo-nodes",
    "PodDisruptionBudget/demo": f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/demo",
    "NetworkPolicy/demo-members": (
        f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies/demo-members"
    ),
}
CONTENT: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"application.yaml": "all of it"}},
    "Secret": {"data": {"username": "YQ==", "password": "Yg=="}},
    "Service": {"spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}},
    "PodDisruptionBudget": {"spec": {"selector": {"app": "theirs"}, "minAvailable": 7}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "theirs"}}}},
}
OWNERS: dict[str, list[dict[str, Any]]] = {
    "without owner": [],
    "another's": [{"kind": "Deployment", "name": "theirs", "uid": "other", "controller": True}],
}


def put(api: InMemoryKubeApi, subject: str, owners: list[dict[str, Any]]) -> None:
    kind, _, name = subject.partition("/")
    labels = {"app.kubernetes.io/instance": NAME, "app.kubernetes.io/managed-by": "Helm"}
    meta = {**api.objects[PATHS[subject]]["metadata"], "uid": "theirs", "annotations": {}}
    meta |= {"name": name, "labels": labels, "ownerReferences": owners}
    api.objects[PATHS[subject]] = {"kind": kind, "metadata": meta, **copy.deepcopy(CONTENT[kind])}


def by_new_operators(api: InMemoryKubeApi, times: int = 5) -> None:
    for _ in range(times):
        reconcile(api, times=1)


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("subject", PATHS)
def test_it_is_unchanged_and_reported(subject: str, owners: list[dict[str, Any]]) -> None:
    api = running_quorum(3, networkPolicy={"mode": "Enabled"})
    put(api, subject, owners)
    before = copy.deepcopy(api.objects[PATHS[subject]])
    unchecked: Any = api
    times = count(time.time())  # the next attempt is due each time
    nodes: Any = HealthyNodes(3)
    made = Reconciler(unchecked, nodes, Metrics(), clock=lambda: next(times))
    repeat(made, 5)
    assert api.objects[PATHS[subject]] == before
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", "AlreadyExists")
    assert subject in refused["message"]
    assert "delete or rename it" in refused["message"]
    del api.objects[PATHS[subject]]
    by_new_operators(api)
    assert api.objects[PATHS[subject]]["metadata"]["ownerReferences"][0]["name"] == NAME
    assert api.condition("Refused")["status"] == "False"


@pytest.mark.parametrize("subject", sorted(PATHS.keys() - {"Secret/demo-admin"}))
def test_an_own_object_that_another_client_took_over_is_restored(subject: str) -> None:
    """It has the operator's labels or annotation."""
    api = running_quorum(3, networkPolicy={"mode": "Enabled"})
    api.objects[PATHS[subject]]["metadata"]["ownerReferences"] = OWNERS["another's"]
    by_new_operators(api)
    owners = api.objects[PATHS[subject]]["metadata"]["ownerReferences"]
    assert NAME in [each["name"] for each in owners]
