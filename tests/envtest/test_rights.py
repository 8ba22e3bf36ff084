"""The operator acts with the rights of the manifests: it lacks none, and none is left over."""

import pytest

from support import chart
from support.envtest.backup_jobs import end_backup
from support.envtest.environment import Env
from support.envtest.http_proxy import Call
from support.envtest.kube_api import ApiError
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

APPLIED = {
    ("", "services", "create"),
    ("policy", "poddisruptionbudgets", "create"),
    ("networking.k8s.io", "networkpolicies", "create"),
    ("batch", "cronjobs", "create"),
}
"""An apply (PATCH) that finds nothing creates, and needs the right to."""


REASSIGNMENT = {
    "apiVersion": kube.API_VERSION,
    "kind": "PartitionReassignment",
    "metadata": {"name": "r"},
    "spec": {"quorum": "q", "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
}


def right(call: Call) -> tuple[str, str, str] | None:
    """The rule that allows a call: API group, resource, verb. None for what is open to everyone."""
    parts = call.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1:2], parts[3:])
    if not rest:
        return None  # discovery
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, named, subresource = rest[0], len(rest) > 1, rest[2:]
    verb = _VERBS.get(call.method) or ("get" if named else "list")
    if verb == "list" and "watch=true" in call.query.lower():
        verb = "watch"
    return "".join(group), "/".join([resource, *subresource]), verb


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/nodes", "watch=true&x=1", ("", "nodes", "watch")),
        ("GET", "/api/v1/namespaces/n/pods", "", ("", "pods", "list")),
        ("GET", "/api/v1/namespaces/n/secrets/s", "", ("", "secrets", "get")),
        ("PATCH", "/apis/g/v1/namespaces/n/rs/x/status", "", ("g", "rs/status", "patch")),
        ("GET", "/api/v1/namespaces", "", ("", "namespaces", "list")),
        ("GET", "/apis", "", None),
        ("GET", "/apis/apps/v1", "", None),
    ],
)
def test_every_operator_call_matches_a_granted_rule(
    method: str, path: str, query: str, expected: tuple[str, str, str] | None
) -> None:
    assert right(Call(0, method, "", path, query, b"")) == expected


_ACCOUNT = f"system:serviceaccount:{chart.NAMESPACE}:{chart.RELEASE}"
_ASKED = sorted(
    chart.granted(chart.of_kind(chart.plain(), "ClusterRole", "Role"))
    | {("", "secrets", verb) for verb in ("list", "watch", "delete", "update")}
    | {("", "pods/exec", "create"), ("rbac.authorization.k8s.io", "roles", "create")}
    | {("", "nodes", "patch"), ("", "persistentvolumes", "delete"), ("", "namespaces", "list")}
)


def allowed(env: Env, space: str) -> set[tuple[str, str, str]]:
    """What of `_ASKED` the API server allows the operator's account in a namespace; in all of them for an empty one."""
    found = set()
    for group, resource, verb in _ASKED:
        kind, _, part = resource.partition("/")
        requested = {"namespace": space, "group": group, "resource": kind, "subresource": part}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": _ACCOUNT, "resourceAttributes": {**requested, "verb": verb}},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        if env.api.create(path, review)["status"]["allowed"]:
            found.add((group, resource, verb))
    return found


@pytest.mark.requirement("OP-02")
def test_operator_has_rights_only_in_watched_namespaces(env: Env) -> None:
    own = next(iter(chart.of_kind(chart.watched(env.namespace), "Role")))
    of_cluster = chart.granted(chart.of_kind(chart.plain(), "ClusterRole"))
    assert allowed(env, env.namespace) == chart.granted([own]) | of_cluster
    for elsewhere in ("default", "kube-system", ""):
        assert allowed(env, elsewhere) == of_cluster, f"in namespace {elsewhere or '(all)'}"


@pytest.mark.requirement("OP-02")
def test_operator_reads_no_secret_of_another_namespace(env: Env) -> None:
    """Asked with the operator's own credentials, as a stolen token would be used."""
    name = env.namespace  # unlike that of any other test
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    for space in ("default", env.namespace):
        env.api.create(kube.core(space, "secrets"), secret)
    answers = {
        space: env.api.as_user(_ACCOUNT, kube.core(space, "secrets", name))
        for space in ("default", env.namespace)
    }
    assert answers == {"default": 403, env.namespace: 200}
    for space in ("default", env.namespace, "kube-system"):
        assert env.api.as_user(_ACCOUNT, kube.core(space, "secrets")) == 403, "no list at all"
    env.api.delete(kube.core("default", "secrets", name))


def unlabel(env: Env, plural: str, name: str) -> None:
    """Takes a label away, and waits until the operator has put it back."""
    group = kube.apps if plural == "statefulsets" else kube.core
    path, claims = group(env.namespace, plural, name), "persistentvolumeclaims"
    label = "metadataquorum.dev/quorum" if plural == claims else "app.kubernetes.io/instance"
    env.api.merge(path, {"metadata": {"labels": {label: None}}})
    wait_for(
        f"the label of {name}",
        lambda: label in env.api.get(path)["metadata"]["labels"],
        timeout_s=30,
    )


def freeze(env: Env, name: str) -> None:
    """Makes a ConfigMap immutable with other contents, and waits until the operator has recreated it."""
    path = kube.core(env.namespace, "configmaps", name)
    env.api.merge(path, {"immutable": True, "data": {"node.properties": "x=y"}})

    def is_recreated() -> bool:
        found = env.api.find(path) or {}
        return "metadata.log.dir" in found.get("data", {}).get("node.properties", "")

    wait_for(f"{name} as it was", is_recreated, timeout_s=60)


def give_cluster_ip(env: Env, name: str) -> None:
    """What `kubectl replace --force` does with a headless Service whose manifest lost `clusterIP: None`. Waits until the
    operator has recreated it.
    """
    path = kube.core(env.namespace, "services", name)
    live = env.api.get(path)
    kept = {key: live["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    spec = {key: value for key, value in live["spec"].items() if not key.startswith("clusterIP")}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": kept, "spec": spec}

    def is_replaced() -> bool:
        env.api.delete(path)
        try:
            env.api.create(kube.core(env.namespace, "services"), body)
        except ApiError as error:
            if error.status != 409:
                raise
            return False  # The operator was faster.
        return True

    def is_headless() -> bool:
        found = env.api.find(path) or {"spec": {}}
        return found["spec"].get("clusterIP") == "None"

    wait_for(f"{name} with a cluster IP", is_replaced, timeout_s=30)
    wait_for(f"{name} headless again", is_headless, timeout_s=60)


def back_up(quorum: ApiServerQuorum) -> None:
    """A CronJob that runs once, and is then removed from the spec."""
    quorum.patch({"backup": {"schedule": "@daily", "claimName": "backups"}})
    cron_job = kube.batch(quorum.namespace, "cronjobs", "q-backup")
    wait_for("the CronJob", lambda: quorum.api.find(cron_job) is not None, timeout_s=60)
    end_backup(quorum, "q-backup-now", successful=True)
    wait_for(
        "its result in the status",
        lambda: (quorum.status().get("backup") or {}).get("lastSuccessAt"),
        timeout_s=60,
        seen=quorum.summary,
    )
    quorum.patch({"backup": None})
    wait_for("no CronJob", lambda: quorum.api.find(cron_job) is None, timeout_s=60)


def refuse_pods(env: Env) -> None:
    """Further quorums: the API server refuses the pods of one, whose reason is in events; one names no storage class."""
    classless = env.apply(1, name="c", storage={"size": "200Mi", "storageClassName": "missing"})
    classless.wait_condition("SpecInvalid", timeout_s=MOVE_TIMEOUT_S)
    refused = env.apply(1, name="r", podTemplate={"priorityClassName": "missing"})
    wait_for(
        "the reason in the status",
        lambda: "no PriorityClass with name missing" in str(refused.status()),
        timeout_s=MOVE_TIMEOUT_S,
        seen=refused.summary,
    )
    env.discard(refused)
    env.discard(classless)


def lose_host(env: Env, quorum: ApiServerQuorum) -> None:
    """The host of a voter is gone for good: before its replica is replaced, its volume is read from the API server."""
    lost = quorum.voter(leader=False)
    pod = env.api.get(kube.core(env.namespace, "pods", quorum.pod_of(lost.id, lost.uuid)))
    host = pod["spec"]["nodeName"]
    env.cluster.call(env.cluster.kubelet.lose_node(host))
    try:
        quorum.wait_healthy(
            3,
            timeout_s=MOVE_TIMEOUT_S,
            also=lambda now: (lost.id, lost.uuid) not in now.keys,
        )
    finally:
        env.cluster.call(env.cluster.kubelet.add_node(host))


@pytest.mark.long
def test_quorum_life_cycle_uses_exactly_the_granted_rights(env: Env) -> None:
    operator, proxy = env.add_operator(lease=True)
    operator.start()
    quorum = env.create(3, disks=True)
    quorum.patch({"config": {"controller.quorum.fetch.timeout.ms": "2500"}})
    wait_for(
        "a restarted pod", lambda: any(c.path.endswith("-0") for c in proxy.calls), timeout_s=60
    )
    quorum.wait_ready(3)
    unlabel(env, "statefulsets", "q-3-1")
    unlabel(env, "pods", "q-3-1-0")
    unlabel(env, "persistentvolumeclaims", "data-q-3-1-0")
    unlabel(env, "secrets", "q-admin")
    freeze(env, "q-config")
    give_cluster_ip(env, "q-nodes")
    lose_host(env, quorum)
    policy = kube.network_policies(env.namespace, "q-members")
    assert env.api.find(policy)
    quorum.patch({"networkPolicy": {"mode": "Disabled"}})
    wait_for("no network policy", lambda: env.api.find(policy) is None, timeout_s=30)
    reassignment = env.api.create(kube.reassignments(env.namespace), REASSIGNMENT)
    path = kube.reassignments(env.namespace, reassignment["metadata"]["name"])
    wait_for("its status", lambda: "status" in env.api.get(path), timeout_s=30)
    back_up(quorum)
    refuse_pods(env)
    quorum.scale(1)
    quorum.wait_ready(1)
    wait_for(
        "the removed incarnations deleted, and the failed one kept",
        lambda: sorted(quorum.incarnations().values()) == [0, 1],
        timeout_s=MOVE_TIMEOUT_S,
        seen=quorum.summary,
    )
    assert env.denied() == set()
    used = {found for call, _ in proxy.to_api if (found := right(call)) is not None}
    used |= {(group, kind, "create") for group, kind, verb in used if verb == "patch"} & APPLIED
    granted = chart.granted(chart.of_kind(chart.plain(), "ClusterRole", "Role"))
    assert granted - used == set(), "rights that nothing uses"
