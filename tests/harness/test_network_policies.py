"""The network policies that the operator applies on a real API server, as packet filter rules for the pods that are there.

No plugin that enforces them can be had here; what one would install is derived (`support/packet_filter.py`) from what the API
server returns.
"""

import pytest

from support import chart
from support.harness.kube_api import ApiError
from support.harness.quorum import HarnessQuorum
from support.harness.scene import NODE_IMAGE, Scene
from support.packet_filter import Pod
from support.reachability import ADMIN, BY_DEFAULT, EVERYTHING, around, reaches
from support.trial import kube
from support.trial.bed import programs
from support.trial.waiting import wait_for

pytestmark = pytest.mark.harness

_HOME = {"METADATAQUORUM_OPERATOR_NAMESPACE": chart.NAMESPACE}
_OF_THREE = BY_DEFAULT | {"member 3": BY_DEFAULT["member 2"]}
_SCRAPER = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app": "prometheus"}},
}


def pods_of(scene: Scene, quorum: HarnessQuorum) -> list[Pod]:
    """The members that the API server has, and everybody around them."""
    found = scene.api.list(
        kube.core(scene.namespace, "pods"), f"app.kubernetes.io/instance={quorum.name}"
    )
    return around(scene.namespace, quorum.name, [pod["metadata"]["labels"] for pod in found])


def matrix(scene: Scene, quorum: HarnessQuorum) -> dict[str, set[int]]:
    policies = scene.api.list(kube.network_policies(scene.namespace))
    return reaches(policies, scene.namespace, pods_of(scene, quorum))


def path_of(scene: Scene) -> str:
    return kube.network_policies(scene.namespace, "q-members")


@pytest.mark.requirement("OP-01")
def test_members_are_reached_by_whom_they_should_be(scene: Scene) -> None:
    operator, _ = scene.add_operator(**_HOME)
    operator.start()
    quorum = scene.create(3)
    assert matrix(scene, quorum) == _OF_THREE
    before = scene.api.get(path_of(scene))
    operator.kill()  # it would mend the policy before it is looked at
    scene.api.merge(path_of(scene), {"spec": {"ingress": [{}]}})
    opened = {name: _OF_THREE[name] for name in ("member 2", "member 3")}  # their own egress
    assert matrix(scene, quorum) == dict.fromkeys(_OF_THREE, EVERYTHING) | opened
    operator.start()
    wait_for("a mended policy", lambda: matrix(scene, quorum) == _OF_THREE, timeout_s=40)
    scene.api.delete(path_of(scene))
    wait_for("a policy made again", lambda: scene.api.find(path_of(scene)), timeout_s=40)
    assert scene.api.get(path_of(scene))["spec"] == before["spec"]
    quorum.patch({"networkPolicy": {"metricsFrom": [_SCRAPER]}})
    wait_for(
        "metrics for whom they are",
        lambda: matrix(scene, quorum) == _OF_THREE | {"scraper": {ADMIN}},
        timeout_s=40,
    )
    quorum.patch({"networkPolicy": {"mode": "Disabled", "metricsFrom": None}})
    wait_for("no policy", lambda: scene.api.find(path_of(scene)) is None, timeout_s=40)
    assert matrix(scene, quorum) == dict.fromkeys(_OF_THREE, EVERYTHING)
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in quorum.pods())


@pytest.mark.requirement("OP-01")
def test_what_the_chart_and_the_example_run_carries_the_labels_that_are_let_in(
    scene: Scene,
) -> None:
    """Brokers and the pipeline are clients by the labels of their own templates; the operator by its own."""
    operator, _ = scene.add_operator(**_HOME)
    operator.start()
    quorum = scene.apply(1, name="demo", image=NODE_IMAGE)
    policy = kube.network_policies(scene.namespace, "demo-members")
    wait_for("its policy", lambda: scene.api.find(policy), timeout_s=60)
    wait_for("its pod", lambda: len(quorum.pods()) == 1, timeout_s=60)
    file = chart.ROOT / "examples" / "kafka" / "brokers.yaml"
    brokers = chart.the(chart.objects(file.read_text()), "StatefulSet")
    settings = ("pipeline.enabled=true", "pipeline.bootstrap=demo-bootstrap.n.svc:9093")
    by_name = {
        each["metadata"]["name"]: each
        for each in chart.of_kind(chart.render(programs.helm(), *settings), "Deployment")
    }
    own = {
        "brokers": (scene.namespace, brokers),
        "pipeline": (scene.namespace, by_name[f"{chart.RELEASE}-pipeline"]),
        "operator's own": (chart.NAMESPACE, by_name[chart.RELEASE]),
    }
    pods = pods_of(scene, quorum) + [
        Pod(name, space, f"10.0.4.{number}", each["spec"]["template"]["metadata"]["labels"])
        for number, (name, (space, each)) in enumerate(own.items(), 1)
    ]
    found = reaches(scene.api.list(kube.network_policies(scene.namespace)), scene.namespace, pods)
    assert {name: found[name] for name in own} == {
        "brokers": {9093},
        "pipeline": {9093},
        "operator's own": {8080},
    }


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ({}, "a peer has either an ipBlock"),
        ({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}, "a peer has either an ipBlock"),
        ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "NotIn"),
    ],
)
def test_a_wrong_peer_is_refused_when_it_is_applied(
    scene: Scene, peer: dict[str, object], says: str
) -> None:
    document = scene.document("q", 3, networkPolicy={"adminFrom": [peer]})
    with pytest.raises(ApiError) as refused:
        scene.api.create(kube.quorums(scene.namespace), document)
    assert refused.value.status == 422
    assert says in refused.value.body
