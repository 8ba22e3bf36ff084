"""Acts by hand that go beyond deleting and editing: ordinals, owners, deadlines, whole kinds, other people's objects and refusals."""

from support.anything.act import Act, Doing, Drawn, act
from support.anything.drift import BY_HAND
from support.anything.hands import Hands, NothingThere
from support.anything.object_acts import FOREIGN, keeps_claims
from support.envtest.kube_api import Json
from support.kind_env import installation, kube

_PASSES = (4.0, 15.0)
_PREFIX = "metadataquorum.dev"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_ABSENT_ID = 4


@act(destroys=1)
def count_set_from_one(hands: Hands, drawn: Drawn) -> Doing:
    """Let a StatefulSet count its pods from one: another pod, on another claim."""
    member = hands.member(drawn)
    hands.api.merge(hands.set_path(member), {"spec": {"ordinals": {"start": 1}}})
    yield f"{member.name} counts from 1"


@act()
def disown_set(hands: Hands, drawn: Drawn) -> Doing:
    """Take the owner off a StatefulSet."""
    member = hands.member(drawn)
    hands.edit(hands.set_path(member), lambda found: found["metadata"].pop("ownerReferences", None))
    yield f"took the owner off {member.name}"


@act()
def disown_pod(hands: Hands, drawn: Drawn) -> Doing:
    """Take the owner off a pod."""
    path = hands.core("pods", hands.member(drawn).pod)
    hands.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield f"took the owner off {path}"


@act()
def disown_identity(hands: Hands, drawn: Drawn) -> Doing:
    """Take the owner off the identity."""
    path = hands.owned["identity"]
    hands.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield "took the owner off the identity"


@act()
def end_pod_by_deadline(hands: Hands, drawn: Drawn) -> Doing:
    """Give a running pod a deadline that has passed."""
    member = hands.member(drawn)

    def change(found: Json) -> None:
        found["spec"]["activeDeadlineSeconds"] = 1

    hands.edit(hands.core("pods", member.pod), change)
    yield f"gave {member.pod} a deadline"


@act()
def delete_all_sets(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the StatefulSets of all members at once."""
    if not keeps_claims(hands):
        raise NothingThere("its claims would go with them")
    names = [each.name for each in hands.members()]
    for each in hands.members():
        hands.api.delete(hands.set_path(each))
    yield f"deleted {names}"


@act(alone=True)
def delete_all_claims(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the claims of all members at once: they are Terminating under their pods."""
    names = [each.claim for each in hands.members()]
    for name in names:
        hands.api.delete(hands.core("persistentvolumeclaims", name))
    yield f"deleted {names}"


@act()
def freeze_config(hands: Hands, drawn: Drawn) -> Doing:
    """Write something into the config, and make it immutable."""
    path = hands.owned["config"]

    def change(found: Json) -> None:
        found["data"] = {key: f"{value}\n# {BY_HAND}\n" for key, value in found["data"].items()}
        found["immutable"] = True

    hands.edit(path, change)
    yield "edited the config and made it immutable"


_HOLD = "example.com/by-hand"


def _held_and_deleted(hands: Hands, path: str) -> None:
    def hold(found: Json) -> None:
        found["metadata"]["finalizers"] = [*(found["metadata"].get("finalizers") or []), _HOLD]

    hands.edit(path, hold)
    hands.delete(path)


def _let_go(hands: Hands, path: str) -> None:
    if hands.api.find(path) is None:
        return

    def release(found: Json) -> None:
        kept = [each for each in found["metadata"].get("finalizers") or [] if each != _HOLD]
        found["metadata"]["finalizers"] = kept

    hands.edit(path, release)


@act(destroys=1, lasts_s=_PASSES)
def hold_claim(hands: Hands, drawn: Drawn) -> Doing:
    """Put a finalizer on a claim and delete it; take the finalizer off after a while."""
    path = hands.core("persistentvolumeclaims", hands.member(drawn).claim)
    _held_and_deleted(hands, path)
    yield f"deleted {path}, which a finalizer holds"
    _let_go(hands, path)


@act(lasts_s=_PASSES)
def hold_base_object(hands: Hands, drawn: Drawn) -> Doing:
    """Put a finalizer on an object that belongs to no member and delete it; take it off after a while."""
    names = ("service nodes", "service admin", "config", "identity", "token secret")
    path = hands.owned[drawn.one_of((*names, "disruption budget", "network policy"))]
    _held_and_deleted(hands, path)
    yield f"deleted {path}, which a finalizer holds"
    _let_go(hands, path)


@act()
def write_lease(hands: Hands, drawn: Drawn) -> Doing:
    """Write somebody else into the Lease of the operator, for an hour."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{installation.OPERATOR_NAMESPACE}/leases"
    names = [each["metadata"]["name"] for each in hands.api.list(leases)]
    spec = {"holderIdentity": BY_HAND, "leaseDurationSeconds": 3600}
    for name in names:
        hands.api.merge(f"{leases}/{name}", {"spec": spec})
    yield f"wrote {BY_HAND} into {names}"


@act()
def write_status(hands: Hands, drawn: Drawn) -> Doing:
    """Write nonsense into the status."""
    status = {"phase": "Deleting", "clusterId": BY_HAND, "voters": 9, "replicas": 0, "members": []}
    hands.api.merge(f"{hands.quorum.path}/status", {"status": status})
    yield "wrote over the status"


@act()
def write_epochs(hands: Hands, drawn: Drawn) -> Doing:
    """Write an epoch into the status that the quorum has never come to."""
    status = {"newestEpoch": 1_000_000}
    hands.api.merge(f"{hands.quorum.path}/status", {"status": status})
    yield "wrote another epoch into the status"


@act()
def write_identity_notes(hands: Hands, drawn: Drawn) -> Doing:
    """Write nonsense into annotations of the identity."""
    notes = ("formed", "restarting", "tls-stage", "update")
    meta = {"annotations": {f"{_PREFIX}/{each}": BY_HAND for each in notes}}
    hands.api.merge(hands.owned["identity"], {"metadata": meta})
    yield "wrote over the annotations of the identity"


@act()
def strip_everything(hands: Hands, drawn: Drawn) -> Doing:
    """Take the labels off all pods, and the owner off all StatefulSets."""
    for each in hands.pods():
        path = hands.core("pods", each["metadata"]["name"])
        hands.edit(path, lambda found: found["metadata"].pop("labels", None))
    for member in hands.members():
        path = hands.set_path(member)
        hands.edit(path, lambda found: found["metadata"].pop("ownerReferences", None))
    yield "stripped all pods and StatefulSets"


@act(wants=5, endings=(FOREIGN,))
def take_names(hands: Hands, drawn: Drawn) -> Doing:
    """Make a claim and a StatefulSet with the names of the members to come, and ask for five."""
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{hands.name}-{_ABSENT_ID}-1-0", "namespace": hands.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    name = f"{hands.name}-{_ABSENT_ID + 1}-1"
    labels = {"example.com/by": "hand"}
    pod = {"containers": [{"name": "x", "image": "127.0.0.1:1/no-such:5"}]}
    taken: Json = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": hands.namespace},
        "spec": {
            "replicas": 0,
            "serviceName": "none",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    hands.api.apply(hands.core("persistentvolumeclaims", claim["metadata"]["name"]), claim)
    hands.api.apply(kube.apps(hands.namespace, "statefulsets", name), taken)
    hands.want(replicas=5)
    yield f"made {claim['metadata']['name']} and {name}; replicas: 5"


@act(lasts_s=_PASSES)
def deny_all(hands: Hands, drawn: Drawn) -> Doing:
    """Add a NetworkPolicy that lets nobody in or out, for a while."""
    path = kube.network_policies(hands.namespace, BY_HAND)
    body: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": BY_HAND, "namespace": hands.namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }
    hands.api.apply(path, body)
    yield "denied all"
    hands.api.delete(path)


@act(lasts_s=_PASSES)
def absent_webhook(hands: Hands, drawn: Drawn) -> Doing:
    """Let a webhook that does not answer judge pods, StatefulSets or ConfigMaps, for a while."""
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
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": hands.namespace}},
    }
    body: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": BY_HAND},
        "webhooks": [hook],
    }
    hands.api.apply(f"{_WEBHOOKS}/{BY_HAND}", body)
    yield f"an absent webhook judges {plural}"
    hands.api.delete(f"{_WEBHOOKS}/{BY_HAND}")


@act()
def rollout_restart_operator(hands: Hands, drawn: Drawn) -> Doing:
    """Run kubectl rollout restart on the operator."""
    words = ("rollout", "restart", f"deployment/{installation.RELEASE}")
    hands.kubectl("-n", installation.OPERATOR_NAMESPACE, *words)
    yield "rollout restart of the operator"


@act(lasts_s=_PASSES)
def freeze_operator(hands: Hands, drawn: Drawn) -> Doing:
    """Stop the process of the operator with SIGSTOP, and let it go on."""
    hands.env.signal_operator("SIGSTOP")
    yield "froze the operator"
    hands.env.signal_operator("SIGCONT")


@act(destroys=1, lasts_s=_PASSES)
def delete_pod_of_cordoned_host(hands: Hands, drawn: Drawn) -> Doing:
    """Cordon all hosts and delete a pod; uncordon them after a while."""
    for host in hands.workers:
        hands.kubectl("cordon", host)
    member = hands.member(drawn)
    hands.delete(hands.core("pods", member.pod))
    yield f"cordoned all hosts; deleted {member.pod}"
    for host in hands.workers:
        hands.kubectl("uncordon", host)


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
