"""Defaults of new quorums on a real API server: requests of resources, zones if all Nodes have one, no voter changes on the Kafka port."""

from collections.abc import Iterator

import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.long]

_NODES = "/api/v1/nodes"
_ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def zones(env: Env) -> Iterator[None]:
    """Each Node has a zone during the test."""
    names = [each["metadata"]["name"] for each in env.api.list(_NODES)]
    for number, name in enumerate(names):
        _label(env, name, f"zone-{number}")
    yield
    for name in names:
        _label(env, name, None)


def _label(env: Env, node: str, zone: str | None) -> None:
    env.api.merge(f"{_NODES}/{node}", {"metadata": {"labels": {_ZONE: zone}}})


def _spread_over_zones(pod: Json) -> bool:
    spread = pod["spec"].get("topologySpreadConstraints") or []
    return any(each["topologyKey"] == _ZONE for each in spread)


def _config(env: Env, name: str) -> str:
    text: str = env.api.get(kube.core(env.namespace, "configmaps", f"{name}-config"))["data"][
        "node.properties"
    ]
    return text


@pytest.mark.usefixtures("zones")
def test_new_quorum_has_requests_prefers_zones_and_fixes_its_voters(env: Env) -> None:
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.create(3)
    for pod in quorum.pods():
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["requests"] == {"cpu": "100m", "memory": "256Mi"}
        assert "limits" not in container["resources"]
        assert _spread_over_zones(pod)
    assert "admin.membership.on.controller.listener=false" in _config(env, "q")
    # What was recorded at the formation outlives the labels and the identity.
    uids = {pod["metadata"]["uid"] for pod in quorum.pods()}
    for node in env.api.list(_NODES):
        _label(env, node["metadata"]["name"], None)
    path = kube.core(env.namespace, "configmaps", quorum.identities()[0])
    recorded = env.api.get(path)["data"]["defaults"]
    env.api.delete(path)
    wait_for("the identity is recreated", lambda: env.api.find(path) is not None, timeout_s=60)
    quorum.patch({"podTemplate": {"annotations": {"example.org/a": "b"}}})
    quorum.wait_ready(3)
    assert env.api.get(path)["data"]["defaults"] == recorded
    assert {pod["metadata"]["uid"] for pod in quorum.pods()} == uids


def test_explicit_settings_take_precedence_and_nodes_without_zones_give_no_constraint(
    env: Env,
) -> None:
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.create(1, resources={}, config={"admin.membership.on.controller.listener": "true"})
    (pod,) = quorum.pods()
    assert not pod["spec"]["containers"][0].get("resources")
    assert not _spread_over_zones(pod)
    assert "admin.membership.on.controller.listener=true" in _config(env, "q")
    # The same values in another notation, and a change that needs no restart.
    quorum.patch(
        {
            "config": {"admin.membership.on.controller.listener": " true "},
            "podTemplate": {"labels": {"team": "a"}},
        }
    )
    quorum.wait_ready(1)
    assert quorum.resource()["spec"]["podTemplate"]["labels"] == {"team": "a"}
    assert [each["metadata"]["uid"] for each in quorum.pods()] == [pod["metadata"]["uid"]]
