"""Acts on the operator's objects: manual deletion, scaling, edits and changes of labels."""

import contextlib
import re
from base64 import b64encode

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.waiting import NotInTime
from support.random_changes.act import Act, Doing, Drawn, FinalCondition, act
from support.random_changes.drift import BY_HAND
from support.random_changes.operations import UUID, Operations, TargetMissing

_DELETED_BY_A_PERSON = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
}
_NAMED = re.compile(r"([A-Z][A-Za-z]+)/([-a-z0-9]+) \(")


def _deletes_what_is_named(operations: Operations, message: str) -> str:
    """Claims may hold data: whoever reads the condition would not delete them."""
    gone = []
    for kind, name in _NAMED.findall(message):
        if kind == "PodDisruptionBudget":
            path = kube.policy(operations.namespace, "poddisruptionbudgets", name)
        elif kind == "StatefulSet":
            path = kube.apps(operations.namespace, "statefulsets", name)
        elif kind in _DELETED_BY_A_PERSON:
            path = operations.core(_DELETED_BY_A_PERSON[kind], name)
        else:
            continue
        operations.api.delete(path)
        gone.append(f"{kind}/{name}")
    return f"deleted {', '.join(gone) or 'nothing'}"


def _restarts_one_by_one(operations: Operations, message: str) -> str:
    """As the page of the condition says: each pod when all voters are live again."""
    names = [member.pod for member in operations.members()]
    for name in names:
        # A leader takes an ended voter for live until its fetch timeout has passed.
        operations.quorum.wait_healthy(
            len(names), timeout_s=60, also=lambda _: _all_ready(operations)
        )
        operations.api.delete(operations.core("pods", name))
    return f"restarted {names} one by one"


def _all_ready(operations: Operations) -> bool:
    pods = {each["metadata"]["name"]: each for each in operations.pods()}
    found = [pods.get(member.pod) for member in operations.members()]
    return all(each is not None and _is_ready(each) for each in found)


def _is_ready(pod: Json) -> bool:
    ready = [each for each in pod["status"].get("conditions", []) if each["type"] == "Ready"]
    return "deletionTimestamp" not in pod["metadata"] and any(e["status"] == "True" for e in ready)


_ADOPT = re.compile(r"set spec.earlierClaims to \{policy: Adopt, clusterId: ([A-Za-z0-9_-]+)\}")


def _adopted(operations: Operations, pattern: re.Pattern[str], message: str) -> str:
    """Sets spec.earlierClaims to the cluster id in the message, and returns it."""
    found = pattern.search(message)
    assert found is not None, message
    operations.want(earlierClaims={"policy": "Adopt", "clusterId": found[1]})
    return found[1]


def _adopts(operations: Operations, message: str) -> str:
    """Goes on with the data, with the very cluster id that the condition prints."""
    return f"spec.earlierClaims adopts the cluster {_adopted(operations, _ADOPT, message)}"


_MADE_WITH = re.compile(r"\b(?:data-)?[a-z][-a-z0-9]*-\d+-\d+(?:-0)?: ([A-Za-z0-9_-]+)")


def _confirms(operations: Operations, message: str) -> str:
    """The id of StatefulSets or claims: the status is what somebody has edited."""
    return f"spec.earlierClaims confirms the cluster {_adopted(operations, _MADE_WITH, message)}"


CONFLICT = FinalCondition("IdentityMissing", "confirm the right one", _confirms)
EARLIER = FinalCondition("ClaimsInDoubt", _ADOPT.pattern, _adopts)
TOKEN = FinalCondition("Refused", "token", _restarts_one_by_one)
FOREIGN = FinalCondition("ForeignObjects", "Delete or rename", _deletes_what_is_named)

_BASE = (
    "service nodes",
    "service admin",
    "service bootstrap",
    "config",
    "disruption budget",
    "network policy",
)


@act(destroys=1)
def delete_set(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the StatefulSet of a member, and its pod with it."""
    member = operations.member(drawn)
    operations.delete(operations.set_path(member))
    yield f"deleted StatefulSet {member.name}"


@act(destroys=1, endings=(FOREIGN,))
def orphan_set(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the StatefulSet of a member with --cascade=orphan."""
    member = operations.member(drawn)
    operations.kubectl(
        "-n", operations.namespace, "delete", "statefulset", member.name, "--cascade=orphan"
    )
    yield f"deleted StatefulSet {member.name}, its pod stays"


@act()
def scale_set_to_zero(operations: Operations, drawn: Drawn) -> Doing:
    """Scale the StatefulSet of a member to zero."""
    member = operations.member(drawn)
    operations.api.merge(operations.set_path(member), {"spec": {"replicas": 0}})
    yield f"scaled {member.name} to 0"


@act()
def scale_set_to_two(operations: Operations, drawn: Drawn) -> Doing:
    """Scale the StatefulSet of a member to two."""
    member = operations.member(drawn)
    operations.api.merge(operations.set_path(member), {"spec": {"replicas": 2}})
    yield f"scaled {member.name} to 2"


@act()
def edit_set(operations: Operations, drawn: Drawn) -> Doing:
    """Edit the template of a StatefulSet."""
    member = operations.member(drawn)

    def change(found: Json) -> None:
        found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 77
        container = found["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "BY_HAND", "value": BY_HAND}]

    operations.edit(operations.set_path(member), change)
    yield f"edited the template of {member.name}"


@act()
def rollout_restart(operations: Operations, drawn: Drawn) -> Doing:
    """Run kubectl rollout restart on a StatefulSet."""
    member = operations.member(drawn)
    operations.kubectl(
        "-n", operations.namespace, "rollout", "restart", f"statefulset/{member.name}"
    )
    yield f"rollout restart of {member.name}"


@act()
def evict_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for the eviction of a member's pod, as the disruption budget allows it."""
    member = operations.member(drawn)
    body: Json = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": member.pod, "namespace": operations.namespace},
    }
    operations.api.create(f"{operations.core('pods', member.pod)}/eviction", body)
    yield f"evicted {member.pod}"


@act()
def delete_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the pod of a member."""
    member = operations.member(drawn)
    operations.delete(operations.core("pods", member.pod))
    yield f"deleted pod {member.pod}"


@act()
def delete_pod_by_force(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the pod of a member with --grace-period=0."""
    member = operations.member(drawn)
    operations.delete(operations.core("pods", member.pod), grace_s=0)
    yield f"deleted pod {member.pod} by force"


@act()
def delete_all_pods(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the pods of all members at once."""
    names = [each["metadata"]["name"] for each in operations.pods()]
    for name in names:
        operations.api.delete(operations.core("pods", name))
    yield f"deleted pods {names}"


@act()
def delete_base_object(operations: Operations, drawn: Drawn) -> Doing:
    """Delete a service, the config or the disruption budget."""
    name = drawn.one_of(_BASE)
    operations.delete(operations.owned[name])
    yield f"deleted the {name}"


@act()
def delete_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the identity ConfigMap."""
    operations.delete(operations.owned["identity"])
    yield "deleted the identity"


@act(endings=(TOKEN,))
def delete_token(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Secret with the token of the admin API."""
    operations.delete(operations.owned["token secret"])
    yield "deleted the token secret"


@act(endings=(TOKEN,))
def edit_token(operations: Operations, drawn: Drawn) -> Doing:
    """Write another token into the Secret."""
    token = b64encode(f"written-over-{drawn.choice}-0123456789".encode()).decode()
    operations.api.merge(operations.owned["token secret"], {"data": {"token": token}})
    yield "edited the token"


@act()
def strip_base_object(operations: Operations, drawn: Drawn) -> Doing:
    """Take labels and annotations off a service, the config or the disruption budget."""
    name = drawn.one_of(_BASE)
    operations.edit(operations.owned[name], _stripped)
    yield f"stripped the {name}"


@act()
def strip_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Take labels and annotations off the identity."""
    operations.edit(operations.owned["identity"], _stripped)
    yield "stripped the identity"


@act()
def strip_token(operations: Operations, drawn: Drawn) -> Doing:
    """Take labels and annotations off the token's Secret."""
    operations.edit(operations.owned["token secret"], _stripped)
    yield "stripped the token secret"


@act()
def strip_set(operations: Operations, drawn: Drawn) -> Doing:
    """Take labels and annotations off a StatefulSet."""
    member = operations.member(drawn)
    operations.edit(operations.set_path(member), _stripped)
    yield f"stripped StatefulSet {member.name}"


@act()
def strip_set_uuid(operations: Operations, drawn: Drawn) -> Doing:
    """Take the replica UUID off a StatefulSet."""
    member = operations.member(drawn)
    operations.api.merge(operations.set_path(member), {"metadata": {"annotations": {UUID: None}}})
    yield f"took the UUID off {member.name}"


@act()
def strip_pod_notes(operations: Operations, drawn: Drawn) -> Doing:
    """Take the annotations off a pod."""
    member = operations.member(drawn)
    operations.edit(
        operations.core("pods", member.pod),
        lambda found: found["metadata"].pop("annotations", None),
    )
    yield f"took the annotations off {member.pod}"


@act()
def strip_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Take the labels off a pod."""
    member = operations.member(drawn)
    operations.edit(operations.core("pods", member.pod), _stripped)
    yield f"stripped {member.pod}"


@act()
def relabel_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Give a pod the label of another instance."""
    member = operations.member(drawn)
    labels = {"app.kubernetes.io/instance": "somebody-else"}
    operations.api.merge(operations.core("pods", member.pod), {"metadata": {"labels": labels}})
    yield f"relabelled {member.pod}"


@act()
def strip_claim(operations: Operations, drawn: Drawn) -> Doing:
    """Take labels and annotations of ours off a claim."""
    member = operations.member(drawn)
    operations.edit(operations.core("persistentvolumeclaims", member.claim), _unlabelled)
    yield f"stripped {member.claim}"


@act(endings=(FOREIGN,))
def disown(operations: Operations, drawn: Drawn) -> Doing:
    """Take the owner off an object."""
    name = drawn.one_of((*_BASE, "token secret"))
    operations.edit(
        operations.owned[name], lambda found: found["metadata"].pop("ownerReferences", None)
    )
    yield f"took the owner off the {name}"


@act()
def edit_service(operations: Operations, drawn: Drawn) -> Doing:
    """Let a service select the pods of another application."""
    name = drawn.one_of(("service nodes", "service admin", "service bootstrap"))
    selector = {"app.kubernetes.io/instance": "somebody-else"}
    operations.api.merge(operations.owned[name], {"spec": {"selector": selector}})
    yield f"edited the selector of the {name}"


@act()
def edit_service_ports(operations: Operations, drawn: Drawn) -> Doing:
    """Let the ports of a service lead nowhere, and add one."""
    name = drawn.one_of(("service nodes", "service admin", "service bootstrap"))

    def change(found: Json) -> None:
        ports = found["spec"]["ports"]
        for each in ports:
            each["targetPort"] = 1
        ports.append({"name": BY_HAND, "port": 999, "protocol": "TCP", "targetPort": 999})

    operations.edit(operations.owned[name], change)
    yield f"edited the ports of the {name}"


@act()
def edit_pod_image(operations: Operations, drawn: Drawn) -> Doing:
    """Give the container of a running pod an image that does not exist."""
    member = operations.member(drawn)

    def change(found: Json) -> None:
        found["spec"]["containers"][0]["image"] = "127.0.0.1:1/no-such:3"

    operations.edit(operations.core("pods", member.pod), change)
    yield f"edited the image of {member.pod}"


@act()
def edit_config(operations: Operations, drawn: Drawn) -> Doing:
    """Edit the properties in the ConfigMap."""

    def change(found: Json) -> None:
        found["data"] = {key: f"{value}\n# {BY_HAND}\n" for key, value in found["data"].items()}

    operations.edit(operations.owned["config"], change)
    yield "edited the config"


@act()
def edit_budget(operations: Operations, drawn: Drawn) -> Doing:
    """Let the disruption budget allow everything."""

    def change(found: Json) -> None:
        found["spec"].pop("minAvailable", None)
        found["spec"]["maxUnavailable"] = "100%"

    operations.edit(operations.owned["disruption budget"], change)
    yield "edited the disruption budget"


@act(endings=(EARLIER,))
def recreate(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the resource and apply it again, while its claims are left."""
    if not keeps_claims(operations):
        raise TargetMissing("its claims would go with it")
    # The resource stays until the pods on an unavailable host have ended.
    operations.need_all_hosts()
    before = operations.quorum.resource()
    operations.delete(operations.quorum.path)
    # A pod that was given to another owner stays.
    with contextlib.suppress(NotInTime):
        operations.quorum.wait_gone(timeout_s=60)
    kept = {"name": operations.name, "namespace": operations.namespace}
    made = {**before, "metadata": kept, "status": {}}
    operations.own(
        operations.api.create(kube.quorums(operations.namespace), made)["metadata"]["uid"]
    )
    yield "deleted the resource and applied it again"


@act()
def strip_resource(operations: Operations, drawn: Drawn) -> Doing:
    """Empty the status of the resource."""
    operations.api.merge(f"{operations.quorum.path}/status", {"status": None})
    yield "emptied the status"


def keeps_claims(operations: Operations) -> bool:
    """Whether claims stay when StatefulSets are deleted."""
    policies = [
        each["spec"].get("persistentVolumeClaimRetentionPolicy") for each in operations.sets()
    ]
    return all((each or {}).get("whenDeleted") != "Delete" for each in policies)


def _stripped(found: Json) -> None:
    found["metadata"].pop("labels", None)
    found["metadata"].pop("annotations", None)


def _unlabelled(found: Json) -> None:
    """What binds a claim to its volume is Kubernetes' own."""
    found["metadata"].pop("labels", None)
    notes = found["metadata"].get("annotations") or {}
    found["metadata"]["annotations"] = {k: v for k, v in notes.items() if "kubernetes.io" in k}


ACTS: tuple[Act, ...] = (
    delete_set,
    orphan_set,
    scale_set_to_zero,
    scale_set_to_two,
    edit_set,
    rollout_restart,
    evict_pod,
    delete_pod,
    delete_pod_by_force,
    delete_all_pods,
    delete_base_object,
    delete_identity,
    delete_token,
    edit_token,
    strip_base_object,
    strip_identity,
    strip_token,
    strip_set,
    strip_set_uuid,
    strip_pod_notes,
    strip_pod,
    relabel_pod,
    strip_claim,
    disown,
    edit_service,
    edit_service_ports,
    edit_pod_image,
    edit_config,
    edit_budget,
    recreate,
    strip_resource,
)
