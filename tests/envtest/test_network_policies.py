"""The network policies that the operator applies on a real API server, as packet filter rules for the pods that are there.

No plugin that enforces them can be had here; what one would install is derived (`support/packet_filter.py`) from what the API
server returns.
"""

import pytest

from quorum_operator.kube.facts import overrides_in
from quorum_operator.planner.tls_stage import TlsStage, stage_of_process
from support import chart
from support.envtest.environment import NODE_IMAGE, Env
from support.envtest.kube_api import ApiError
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.testbed import programs
from support.kind_env.waiting import wait_for
from support.packet_filter import Pod
from support.reachability import ADMIN, EVERYTHING, around, by_default, reaches

pytestmark = pytest.mark.envtest

_HOME = {"METADATAQUORUM_OPERATOR_NAMESPACE": chart.NAMESPACE}


def _of_three(stage: TlsStage) -> dict[str, set[int]]:
    found = by_default(stage)
    return found | {"member 3": found["member 2"]}


_OF_THREE = _of_three(TlsStage.PLAIN)
_SCRAPER = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app": "prometheus"}},
}


def pods_of(env: Env, quorum: ApiServerQuorum) -> list[Pod]:
    """The members on the API server, and all pods around them."""
    found = env.api.list(
        kube.core(env.namespace, "pods"), f"app.kubernetes.io/instance={quorum.name}"
    )
    return around(env.namespace, quorum.name, [pod["metadata"]["labels"] for pod in found])


def matrix(env: Env, quorum: ApiServerQuorum) -> dict[str, set[int]]:
    policies = env.api.list(kube.network_policies(env.namespace))
    return reaches(policies, env.namespace, pods_of(env, quorum))


def path_of(env: Env) -> str:
    return kube.network_policies(env.namespace, "q-members")


@pytest.mark.requirement("OP-01")
def test_network_policy_admits_only_allowed_peers(env: Env) -> None:
    operator, _ = env.add_operator(**_HOME)
    operator.start()
    quorum = env.create(3)
    assert matrix(env, quorum) == _OF_THREE
    before = env.api.get(path_of(env))
    operator.kill()  # it would revert the policy before the check
    env.api.merge(path_of(env), {"spec": {"ingress": [{}]}})
    opened = {name: _OF_THREE[name] for name in ("member 2", "member 3")}  # their own egress
    assert matrix(env, quorum) == dict.fromkeys(_OF_THREE, EVERYTHING) | opened
    operator.start()
    wait_for("a corrected policy", lambda: matrix(env, quorum) == _OF_THREE, timeout_s=40)
    env.api.delete(path_of(env))
    wait_for("a policy made again", lambda: env.api.find(path_of(env)), timeout_s=40)
    assert env.api.get(path_of(env))["spec"] == before["spec"]
    quorum.patch({"networkPolicy": {"metricsFrom": [_SCRAPER]}})
    wait_for(
        "metrics for whom they are",
        lambda: matrix(env, quorum) == _OF_THREE | {"scraper": {ADMIN}},
        timeout_s=40,
    )
    quorum.patch({"networkPolicy": {"mode": "Disabled", "metricsFrom": None}})
    wait_for("no policy", lambda: env.api.find(path_of(env)) is None, timeout_s=40)
    assert matrix(env, quorum) == dict.fromkeys(_OF_THREE, EVERYTHING)
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in quorum.pods())


@pytest.mark.requirement("OP-01")
def test_network_policy_of_a_quorum_with_certificates_admits_only_to_the_secure_port(
    env: Env,
) -> None:
    operator, _ = env.add_operator(**_HOME)
    operator.start()
    quorum = env.create(3, tls={"mode": "Managed"})
    assert matrix(env, quorum) == _of_three(TlsStage.CLOSED)
    quorum.patch({"networkPolicy": {"metricsFrom": [_SCRAPER]}})
    wait_for(
        "metrics for whom they are",
        lambda: matrix(env, quorum) == _of_three(TlsStage.CLOSED) | {"scraper": {ADMIN}},
        timeout_s=40,
    )


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("OP-01")
def test_both_admin_ports_are_admitted_while_a_quorum_migrates_to_tls_and_back(env: Env) -> None:
    operator, _ = env.add_operator(**_HOME)
    operator.start()
    quorum = env.create(3)
    assert matrix(env, quorum) == _of_three(TlsStage.PLAIN)
    for mode, stage in (("Migrating", TlsStage.DIALLING), ("Disabled", TlsStage.PLAIN)):
        quorum.patch({"tls": {"mode": mode}})

        def arrived(stage: TlsStage = stage) -> bool:
            stages = {stage_of_process(overrides_in(pod["spec"])) for pod in quorum.pods()}
            found = matrix(env, quorum)
            # Members may be away for a moment, so those that are there count.
            wanted = {name: _of_three(stage)[name] for name in found}
            return stages == {stage} and found == wanted

        wait_for(f"stage {stage.value}", arrived, timeout_s=240, seen=quorum.summary)


@pytest.mark.requirement("OP-01")
def test_pods_of_chart_and_example_have_the_labels_that_the_network_policy_admits(
    env: Env,
) -> None:
    """Brokers and the pipeline are clients by the labels of their own templates; the operator by its own."""
    operator, _ = env.add_operator(**_HOME)
    operator.start()
    quorum = env.apply(1, name="demo", image=NODE_IMAGE)
    policy = kube.network_policies(env.namespace, "demo-members")
    wait_for("its policy", lambda: env.api.find(policy), timeout_s=60)
    wait_for("its pod", lambda: len(quorum.pods()) == 1, timeout_s=60)
    file = chart.ROOT / "examples" / "kafka" / "brokers.yaml"
    brokers = chart.the(chart.objects(file.read_text()), "StatefulSet")
    settings = ("pipeline.enabled=true", "pipeline.bootstrap=demo-bootstrap.n.svc:9093")
    by_name = {
        each["metadata"]["name"]: each
        for each in chart.of_kind(chart.render(programs.helm(), *settings), "Deployment")
    }
    own = {
        "brokers": (env.namespace, brokers),
        "pipeline": (env.namespace, by_name[f"{chart.RELEASE}-pipeline"]),
        "operator's own": (chart.NAMESPACE, by_name[chart.RELEASE]),
    }
    pods = pods_of(env, quorum) + [
        Pod(name, space, f"10.0.4.{number}", each["spec"]["template"]["metadata"]["labels"])
        for number, (name, (space, each)) in enumerate(own.items(), 1)
    ]
    found = reaches(env.api.list(kube.network_policies(env.namespace)), env.namespace, pods)
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
def test_invalid_network_policy_peer_is_rejected_at_apply(
    idle_env: Env, peer: dict[str, object], says: str
) -> None:
    document = idle_env.document("q", 3, networkPolicy={"adminFrom": [peer]})
    with pytest.raises(ApiError) as refused:
        idle_env.api.create(kube.quorums(idle_env.namespace), document)
    assert refused.value.status == 422
    assert says in refused.value.body
