"""The rules of the harness's kubelet and scheduler that need no cluster."""

from pathlib import Path

from support.envtest import hosts, nodes
from support.envtest.hosts import HostsFile
from support.envtest.kube_api import Json
from support.envtest.pod_files import expand

_LABELS = {"app.kubernetes.io/instance": "q"}


def pod(name: str, *, address: str = "", ready: bool = True, node: str | None = None) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    spec: Json = {"hostname": name, "subdomain": "q-nodes"} | ({"nodeName": node} if node else {})
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": dict(_LABELS)},
        "spec": spec,
        "status": {"podIP": address, "conditions": [condition]},
    }


def service(name: str, *, unready: bool = False, namespace: str = "n") -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": dict(_LABELS), "publishNotReadyAddresses": unready},
    }


def resolve(found: list[tuple[str, str]], name: str) -> set[str]:
    return {address for address, spelling in found if spelling == name}


def test_service_resolves_to_ready_pods_unless_it_publishes_all() -> None:
    pods = [pod("a", address="127.1.0.1"), pod("b", address="127.1.0.2", ready=False)]
    found = hosts.names(pods, [service("q-nodes", unready=True), service("q-admin")])
    assert resolve(found, "q-nodes.n.svc") == {"127.1.0.1", "127.1.0.2"}
    assert resolve(found, "q-admin.n.svc") == {"127.1.0.1"}
    assert resolve(found, "b.q-nodes.n.svc") == {"127.1.0.2"}
    assert resolve(found, "b.q-admin.n.svc") == set()


def test_service_of_another_namespace_resolves_to_nothing() -> None:
    assert hosts.names([pod("a", address="127.1.0.1")], [service("x", namespace="m")]) == []


def test_hosts_file_keeps_its_size_and_its_inode(tmp_path: Path) -> None:
    file = HostsFile(tmp_path / "hosts")
    before = file.path.stat()
    file.write([("127.1.0.1", "a"), ("127.1.0.2", "b")])
    assert "127.1.0.2 b\n" in file.path.read_text()
    file.write([("127.1.0.3", "a")])
    after = file.path.stat()
    assert "127.1.0.2" not in file.path.read_text()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    file.close()


def test_least_loaded_node_is_chosen_and_a_cordoned_one_is_not() -> None:
    workers = [nodes.node(name) for name in ("w1", "w2", "w3")]
    placed = [pod("a", node="w1"), pod("b", node="w2")]
    assert nodes.choose(pod("c"), workers, placed, []) == "w3"
    workers[2]["spec"]["unschedulable"] = True
    assert nodes.choose(pod("c"), workers, placed, []) == "w1"
    assert nodes.choose(pod("c"), [], placed, []) is None


def test_required_spread_allows_its_maximum_skew() -> None:
    rule = {"whenUnsatisfiable": "DoNotSchedule", "topologyKey": nodes.HOSTNAME, "maxSkew": 1}
    workers = [nodes.node(name) for name in ("w1", "w2")]
    placed = [pod("a", node="w1"), pod("b", node="w2")]
    newcomer = pod("c")
    newcomer["spec"]["topologySpreadConstraints"] = [rule]
    assert nodes.choose(newcomer, workers, placed[:1], []) == "w2"
    assert nodes.choose(newcomer, workers, placed, []) == "w1", "one more on each is even again"
    rule["minDomains"] = 3
    assert nodes.choose(newcomer, workers, placed, []) is None
    assert nodes.choose(newcomer, workers, placed[:1], []) == "w2"
    rule["whenUnsatisfiable"] = "ScheduleAnyway"
    assert nodes.choose(newcomer, workers, placed, []) == "w1"


def test_pod_is_scheduled_to_the_node_of_its_volume_or_not_at_all() -> None:
    workers = [nodes.node(name) for name in ("w1", "w2")]
    there = {"key": nodes.HOSTNAME, "operator": "In", "values": ["w2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
    volume = {"spec": {"nodeAffinity": {"required": terms}}}
    assert nodes.choose(pod("c"), workers, [pod("a", node="w2")], [volume]) == "w2"
    assert nodes.choose(pod("c"), workers[:1], [], [volume]) is None


def test_references_between_variables_are_expanded_and_unknown_ones_stay() -> None:
    assert expand("$(A)-$$(A)-$(B)", {"A": "1"}) == "1-$(A)-$(B)"
