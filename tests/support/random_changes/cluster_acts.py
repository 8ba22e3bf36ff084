"""Acts on shared parts of a cluster or namespace: the control plane, DNS, kubelets, limits, all pods at once."""

from collections.abc import Callable

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.testbed import nodes
from support.kind_env.waiting import wait_for
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.object_acts import EARLIER, TOKEN, keeps_claims
from support.random_changes.operations import Operations, TargetMissing

_PASSES = (4.0, 15.0)
_KEPT_AWAY_S = (55.0, 70.0)
_GONE_S = 30.0
_DNS = "deployments", "coredns"
_SYSTEM = "kube-system"


def _control_plane(operations: Operations) -> str:
    names = nodes.node_names(operations.env.cluster.name)
    return next(each for each in names if each.endswith("control-plane"))


def _signal(operations: Operations, signal: str, *programs: str) -> None:
    """To every process of these names on the control plane's host."""
    for each in programs:
        nodes.on_node(_control_plane(operations), ["pkill", f"-{signal}", "-x", each[:15]])


def _frozen(operations: Operations, *programs: str) -> Callable[[], None]:
    _signal(operations, "STOP", *programs)
    return lambda: _signal(operations, "CONT", *programs)


@act()
def kill_api_server(operations: Operations, drawn: Drawn) -> Doing:
    """Kill the API server; its kubelet starts it again."""
    _signal(operations, "KILL", "kube-apiserver")
    yield "killed the API server"


@act(lasts_s=(4.0, 10.0), halts=True)
def freeze_api_server(operations: Operations, drawn: Drawn) -> Doing:
    """Stop the API server with SIGSTOP, and let it go on: calls hang."""
    thaw = _frozen(operations, "kube-apiserver")
    yield "froze the API server"
    thaw()


@act(lasts_s=_PASSES)
def freeze_controllers(operations: Operations, drawn: Drawn) -> Doing:
    """Stop the controllers and the scheduler of Kubernetes with SIGSTOP, and let them go on."""
    thaw = _frozen(operations, "kube-controller-manager", "kube-scheduler")
    yield "froze the controllers and the scheduler"
    thaw()


@act()
def delete_dns_pods(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the pods of the cluster's DNS by force."""
    pods = operations.api.list(kube.core(_SYSTEM, "pods"), "k8s-app=kube-dns")
    for each in pods:
        operations.api.delete(kube.core(_SYSTEM, "pods", each["metadata"]["name"]), grace_s=0)
    yield f"deleted {len(pods)} pods of DNS"


@act(lasts_s=_PASSES)
def dns_away(operations: Operations, drawn: Drawn) -> Doing:
    """Scale the cluster's DNS to nothing for a while."""
    path = kube.apps(_SYSTEM, *_DNS)
    replicas = operations.api.get(path)["spec"]["replicas"]
    operations.api.merge(path, {"spec": {"replicas": 0}})
    yield "scaled DNS to 0"
    operations.api.merge(path, {"spec": {"replicas": replicas}})


@act(lasts_s=_KEPT_AWAY_S)
def stop_kubelet(operations: Operations, drawn: Drawn) -> Doing:
    """Stop the kubelet of a member's host until its Node is not ready, and longer; the pods go on."""
    host = operations.host_of(operations.member(drawn))
    nodes.stop_kubelet(host)
    yield f"stopped the kubelet of {host}"
    nodes.restart_kubelet(host)


@act(lasts_s=_PASSES)
def limit_range(operations: Operations, drawn: Drawn) -> Doing:
    """Set a LimitRange that gives containers limits which the operator did not ask for, for a while."""
    path = operations.core("limitranges", "by-hand")
    limits: Json = {"type": "Container", "default": {"memory": "400Mi", "cpu": "2"}}
    body: Json = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "by-hand", "namespace": operations.namespace},
        "spec": {"limits": [limits]},
    }
    operations.api.apply(path, body)
    yield "set a LimitRange"
    operations.api.delete(path)


@act(lasts_s=_PASSES)
def restricted_namespace(operations: Operations, drawn: Drawn) -> Doing:
    """Enforce the restricted pod security standard in the namespace, for a while."""
    path = f"{kube.NAMESPACES}/{operations.namespace}"
    label = "pod-security.kubernetes.io/enforce"
    operations.api.merge(path, {"metadata": {"labels": {label: "restricted"}}})
    yield "enforced the restricted standard"
    operations.api.merge(path, {"metadata": {"labels": {label: None}}})


def _selector(operations: Operations) -> str:
    return f"app.kubernetes.io/name=metadataquorum,app.kubernetes.io/instance={operations.name}"


@act(destroys=1)
def delete_everything(operations: Operations, drawn: Drawn) -> Doing:
    """Run kubectl delete all on all that belongs to the quorum: StatefulSets, pods, Services."""
    if not keeps_claims(operations):
        raise TargetMissing("its claims would go with the StatefulSets")
    words = ("delete", "all", "-l", _selector(operations), "--wait=false")
    output = operations.kubectl("-n", operations.namespace, *words)
    yield f"deleted {len(output.splitlines())} objects"


@act(endings=(TOKEN,))
def delete_configuration(operations: Operations, drawn: Drawn) -> Doing:
    """Delete all ConfigMaps and Secrets of the quorum at once."""
    words = ("delete", "configmaps,secrets", "-l", _selector(operations), "--wait=false")
    output = operations.kubectl("-n", operations.namespace, *words)
    yield f"deleted {len(output.splitlines())} objects"


@act(destroys=1, endings=(EARLIER,))
def recreate_orphaned(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the resource with --cascade=orphan, and apply it again: its objects have no owner."""
    before = operations.quorum.resource()
    words = ("delete", "metadataquorum", operations.name, "--cascade=orphan")
    operations.kubectl("-n", operations.namespace, *words)
    path = operations.quorum.path
    wait_for(
        "the resource to be gone", lambda: operations.api.find(path) is None, timeout_s=_GONE_S
    )
    kept = {"name": operations.name, "namespace": operations.namespace}
    made = {**before, "metadata": kept, "status": {}}
    operations.own(
        operations.api.create(kube.quorums(operations.namespace), made)["metadata"]["uid"]
    )
    yield "deleted the resource without its objects and applied it again"


@act()
def delete_service_account(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the default ServiceAccount of the namespace, which Kubernetes makes again."""
    operations.delete(operations.core("serviceaccounts", "default"))
    yield "deleted the default ServiceAccount"


ACTS: tuple[Act, ...] = (
    kill_api_server,
    freeze_api_server,
    freeze_controllers,
    delete_dns_pods,
    dns_away,
    stop_kubelet,
    limit_range,
    restricted_namespace,
    delete_everything,
    delete_configuration,
    recreate_orphaned,
    delete_service_account,
)
