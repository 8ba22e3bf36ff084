"""Acts by hand that go beyond deleting and editing: ordinals, owners, deadlines, whole kinds, other people's objects and refusals."""

import contextlib

from support.envtest.kube_api import Json
from support.kind_env import installation, kube
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.drift import BY_HAND
from support.random_changes.object_acts import CONFLICT, FOREIGN, keeps_claims
from support.random_changes.operations import Operations, TargetMissing

_PASSES = (4.0, 15.0)
_PREFIX = "metadataquorum.dev"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_ABSENT_ID = 4


@act(destroys=1)
def count_set_from_one(operations: Operations, drawn: Drawn) -> Doing:
    """Let a StatefulSet count its pods from one: another pod, on another claim."""
    member = operations.member(drawn)
    operations.api.merge(operations.set_path(member), {"spec": {"ordinals": {"start": 1}}})
    yield f"{member.name} counts from 1"


@act()
def disown_set(operations: Operations, drawn: Drawn) -> Doing:
    """Take the owner off a StatefulSet."""
    member = operations.member(drawn)
    operations.edit(
        operations.set_path(member), lambda found: found["metadata"].pop("ownerReferences", None)
    )
    yield f"took the owner off {member.name}"


@act()
def disown_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Take the owner off a pod."""
    path = operations.core("pods", operations.member(drawn).pod)
    operations.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield f"took the owner off {path}"


@act()
def disown_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Take the owner off the identity."""
    path = operations.owned["identity"]
    operations.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield "took the owner off the identity"


@act()
def end_pod_by_deadline(operations: Operations, drawn: Drawn) -> Doing:
    """Give a running pod a deadline that has passed."""
    member = operations.member(drawn)

    def change(found: Json) -> None:
        found["spec"]["activeDeadlineSeconds"] = 1

    operations.edit(operations.core("pods", member.pod), change)
    yield f"gave {member.pod} a deadline"


@act()
def delete_all_sets(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the StatefulSets of all members at once."""
    if not keeps_claims(operations):
        raise TargetMissing("its claims would go with them")
    names = [each.name for each in operations.members()]
    for each in operations.members():
        operations.api.delete(operations.set_path(each))
    yield f"deleted {names}"


@act(alone=True)
def delete_all_claims(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the claims of all members at once: they are Terminating under their pods."""
    names = [each.claim for each in operations.members()]
    for name in names:
        operations.api.delete(operations.core("persistentvolumeclaims", name))
    yield f"deleted {names}"


@act()
def freeze_config(operations: Operations, drawn: Drawn) -> Doing:
    """Write something into the config, and make it immutable."""
    path = operations.owned["config"]

    def change(found: Json) -> None:
        found["data"] = {key: f"{value}\n# {BY_HAND}\n" for key, value in found["data"].items()}
        found["immutable"] = True

    operations.edit(path, change)
    yield "edited the config and made it immutable"


_HOLD = "example.com/by-hand"


def _held_and_deleted(operations: Operations, path: str) -> None:
    def hold(found: Json) -> None:
        found["metadata"]["finalizers"] = [*(found["metadata"].get("finalizers") or []), _HOLD]

    operations.edit(path, hold)
    operations.delete(path)


def _let_go(operations: Operations, path: str) -> None:
    if operations.api.find(path) is None:
        return

    def release(found: Json) -> None:
        kept = [each for each in found["metadata"].get("finalizers") or [] if each != _HOLD]
        found["metadata"]["finalizers"] = kept

    operations.edit(path, release)


@act(destroys=1, lasts_s=_PASSES)
def hold_claim(operations: Operations, drawn: Drawn) -> Doing:
    """Put a finalizer on a claim and delete it; take the finalizer off after a while."""
    path = operations.core("persistentvolumeclaims", operations.member(drawn).claim)
    _held_and_deleted(operations, path)
    yield f"deleted {path}, which a finalizer holds"
    _let_go(operations, path)


@act(lasts_s=_PASSES)
def hold_base_object(operations: Operations, drawn: Drawn) -> Doing:
    """Put a finalizer on an object that belongs to no member and delete it; take it off after a while."""
    names = ("service nodes", "service admin", "config", "identity", "token secret")
    path = operations.owned[drawn.one_of((*names, "disruption budget", "network policy"))]
    _held_and_deleted(operations, path)
    yield f"deleted {path}, which a finalizer holds"
    _let_go(operations, path)


@act()
def write_lease(operations: Operations, drawn: Drawn) -> Doing:
    """Set another holder in the operator's Lease, for an hour."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{installation.OPERATOR_NAMESPACE}/leases"
    names = [each["metadata"]["name"] for each in operations.api.list(leases)]
    spec = {"holderIdentity": BY_HAND, "leaseDurationSeconds": 3600}
    for name in names:
        operations.api.merge(f"{leases}/{name}", {"spec": spec})
    yield f"wrote {BY_HAND} into {names}"


@act(endings=(CONFLICT,))
def write_status(operations: Operations, drawn: Drawn) -> Doing:
    """Write nonsense into the status."""
    status = {"phase": "Deleting", "clusterId": BY_HAND, "voters": 9, "replicas": 0, "members": []}
    operations.api.merge(f"{operations.quorum.path}/status", {"status": status})
    yield "wrote over the status"


@act()
def write_epochs(operations: Operations, drawn: Drawn) -> Doing:
    """Write an epoch into the status that the quorum has never come to."""
    status = {"newestEpoch": 1_000_000}
    operations.api.merge(f"{operations.quorum.path}/status", {"status": status})
    yield "wrote another epoch into the status"


@act()
def write_identity_notes(operations: Operations, drawn: Drawn) -> Doing:
    """Write nonsense into annotations of the identity."""
    notes = ("formed", "restarting", "tls-stage", "update")
    meta = {"annotations": {f"{_PREFIX}/{each}": BY_HAND for each in notes}}
    operations.api.merge(operations.owned["identity"], {"metadata": meta})
    yield "wrote over the annotations of the identity"


@act()
def strip_everything(operations: Operations, drawn: Drawn) -> Doing:
    """Take the labels off all pods, and the owner off all StatefulSets."""
    for each in operations.pods():
        path = operations.core("pods", each["metadata"]["name"])
        operations.edit(path, lambda found: found["metadata"].pop("labels", None))
    for member in operations.members():
        path = operations.set_path(member)
        operations.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield "stripped all pods and StatefulSets"


@act(wants=5, endings=(FOREIGN,))
def take_names(operations: Operations, drawn: Drawn) -> Doing:
    """Make a claim and a StatefulSet with the names of the members to come, and ask for five."""
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{operations.name}-{_ABSENT_ID}-1-0",
            "namespace": operations.namespace,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    name = f"{operations.name}-{_ABSENT_ID + 1}-1"
    labels = {"example.com/by": "hand"}
    pod = {"containers": [{"name": "x", "image": "127.0.0.1:1/no-such:5"}]}
    taken: Json = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": operations.namespace},
        "spec": {
            "replicas": 0,
            "serviceName": "none",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    operations.api.apply(
        operations.core("persistentvolumeclaims", claim["metadata"]["name"]), claim
    )
    operations.api.apply(kube.apps(operations.namespace, "statefulsets", name), taken)
    operations.want(replicas=5)
    yield f"made {claim['metadata']['name']} and {name}; replicas: 5"


@act(lasts_s=_PASSES)
def deny_all(operations: Operations, drawn: Drawn) -> Doing:
    """Add a NetworkPolicy that denies all traffic, for a while."""
    path = kube.network_policies(operations.namespace, BY_HAND)
    body: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": BY_HAND, "namespace": operations.namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }
    operations.api.apply(path, body)
    yield "denied all"
    operations.api.delete(path)


@act(lasts_s=_PASSES)
def absent_webhook(operations: Operations, drawn: Drawn) -> Doing:
    """Register an admission webhook that does not answer for pods, StatefulSets or ConfigMaps, for a while."""
    group, plural = drawn.one_of((("", "pods"), ("apps", "statefulsets"), ("", "configmaps")))
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural]}
    hook: Json = {
        "name": "by-hand.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{**rule, "operations": ["CREATE", "UPDATE", "DELETE"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operations.namespace}},
    }
    body: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": BY_HAND},
        "webhooks": [hook],
    }
    operations.api.apply(f"{_WEBHOOKS}/{BY_HAND}", body)
    yield f"an absent webhook judges {plural}"
    operations.api.delete(f"{_WEBHOOKS}/{BY_HAND}")


@act()
def rollout_restart_operator(operations: Operations, drawn: Drawn) -> Doing:
    """Run kubectl rollout restart on the operator."""
    words = ("rollout", "restart", f"deployment/{installation.RELEASE}")
    operations.kubectl("-n", installation.OPERATOR_NAMESPACE, *words)
    yield "rollout restart of the operator"


@act(lasts_s=_PASSES)
def freeze_operator(operations: Operations, drawn: Drawn) -> Doing:
    """Stop the process of the operator with SIGSTOP, and let it go on."""
    operations.env.signal_operator("SIGSTOP")
    yield "froze the operator"
    operations.env.signal_operator("SIGCONT")


@act(destroys=1, lasts_s=_PASSES)
def delete_pod_of_cordoned_host(operations: Operations, drawn: Drawn) -> Doing:
    """Cordon all hosts and delete a pod; uncordon them after a while."""
    member = operations.member(drawn)
    for host in operations.workers:
        operations.kubectl("cordon", host)
    with contextlib.suppress(TargetMissing):
        operations.delete(operations.core("pods", member.pod))
    yield f"cordoned all hosts; deleted {member.pod}"
    for host in operations.workers:
        operations.kubectl("uncordon", host)


ACTS: tuple[Act, ...] = (
    count_set_from_one,
    disown_set,
    disown_pod,
    disown_identity,
    end_pod_by_deadline,
    delete_all_sets,
    delete_all_claims,
    freeze_config,
    hold_claim,
    hold_base_object,
    write_lease,
    write_status,
    write_epochs,
    write_identity_notes,
    strip_everything,
    take_names,
    deny_all,
    absent_webhook,
    rollout_restart_operator,
    freeze_operator,
    delete_pod_of_cordoned_host,
)
