"""Acts by which the quorum's objects become somebody else's, or say something else: owners, Services, immutable objects, forged facts."""

import json

from support.envtest.kube_api import ApiError, Json
from support.random_changes.act import Act, Doing, Drawn, FinalCondition, act
from support.random_changes.drift import BY_HAND
from support.random_changes.object_acts import CONFLICT, FOREIGN, TOKEN
from support.random_changes.operations import Operations, TargetMissing

_PREFIX = "metadataquorum.dev"
_PASSES = (4.0, 15.0)
_OTHER_CLUSTER = "A" * 22
_BASE = ("service nodes", "service admin", "service bootstrap", "config", "disruption budget")


def _stranger(operations: Operations, *, controller: bool) -> Json:
    """An owner that has nothing to do with the quorum: an object that every namespace has."""
    found = operations.api.get(operations.core("configmaps", "kube-root-ca.crt"))["metadata"]
    owner: Json = {"apiVersion": "v1", "kind": "ConfigMap", "name": found["name"]}
    return {**owner, "uid": found["uid"], "controller": controller}


def _given_away(operations: Operations, path: str, *, controller: bool) -> None:
    owners = [_stranger(operations, controller=controller)]
    operations.api.merge(path, {"metadata": {"ownerReferences": owners}})


@act()
def give_set_away(operations: Operations, drawn: Drawn) -> Doing:
    """Let another object own a StatefulSet."""
    member = operations.member(drawn)
    _given_away(operations, operations.set_path(member), controller=drawn.choice % 2 == 0)
    yield f"gave {member.name} away"


@act()
def give_everything_away(operations: Operations, drawn: Drawn) -> Doing:
    """Let another object own all StatefulSets and the identity."""
    paths = [operations.set_path(each) for each in operations.members()]
    for path in (*paths, operations.owned["identity"]):
        _given_away(operations, path, controller=True)
    yield f"gave the identity and {len(paths)} StatefulSets away"


@act()
def give_base_object_away(operations: Operations, drawn: Drawn) -> Doing:
    """Let another object own a Service, the config, the disruption budget or the token."""
    name = drawn.one_of((*_BASE, "token secret"))
    _given_away(operations, operations.owned[name], controller=drawn.choice % 2 == 0)
    yield f"gave the {name} away"


@act()
def share_object(operations: Operations, drawn: Drawn) -> Doing:
    """Add a second owner to a Service, the config, the identity or the disruption budget."""
    name = drawn.one_of((*_BASE, "identity"))

    def change(found: Json) -> None:
        found["metadata"]["ownerReferences"] = [
            *(found["metadata"].get("ownerReferences") or []),
            _stranger(operations, controller=False),
        ]

    operations.edit(operations.owned[name], change)
    yield f"the {name} has a second owner"


@act(endings=(FOREIGN,))
def give_pod_away(operations: Operations, drawn: Drawn) -> Doing:
    """Let another object control a pod."""
    member = operations.member(drawn)
    _given_away(operations, operations.core("pods", member.pod), controller=True)
    yield f"gave {member.pod} away"


@act(destroys=1)
def own_set_by_nobody(operations: Operations, drawn: Drawn) -> Doing:
    """Let an object that does not exist own a StatefulSet, which Kubernetes may then delete."""
    path = operations.set_path(operations.member(drawn))
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "no-such"}
    owner = {**absent, "uid": "00000000-0000-4000-8000-000000000000"}
    operations.api.merge(path, {"metadata": {"ownerReferences": [owner]}})
    yield f"the owner of {path} does not exist"


_TRAFFIC: tuple[Json, ...] = (
    {"internalTrafficPolicy": "Local"},
    {"sessionAffinity": "ClientIP"},
    {"trafficDistribution": "PreferClose"},
    {"type": "NodePort"},
)


@act()
def edit_service_traffic(operations: Operations, drawn: Drawn) -> Doing:
    """Let a Service send its clients elsewhere: to pods of their own host, to the same pod, to a port of the hosts."""
    name, change = drawn.one_of(("service admin", "service bootstrap")), drawn.one_of(_TRAFFIC)
    operations.api.merge(operations.owned[name], {"spec": change})
    yield f"{name}: {change}"


@act()
def alias_service(operations: Operations, drawn: Drawn) -> Doing:
    """Make a Service an alias of a name outside of the cluster."""
    name = drawn.one_of(("service nodes", "service admin", "service bootstrap"))
    addresses = dict.fromkeys(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
    alias = {"type": "ExternalName", "externalName": "example.com", "internalTrafficPolicy": None}
    operations.api.merge(operations.owned[name], {"spec": {**addresses, **alias}})
    yield f"{name} is an alias"


def _deletes_the_secret(operations: Operations, message: str) -> str:
    """What the condition says, for the one Secret that acts make immutable."""
    operations.api.delete(operations.owned["token secret"])
    return "deleted the token secret"


_SEALED = FinalCondition("Refused", "delete it, and the operator creates it", _deletes_the_secret)


@act(endings=(_SEALED, TOKEN))
def seal_token(operations: Operations, drawn: Drawn) -> Doing:
    """Empty the Secret of the token, and make it immutable."""
    body = {"data": {"token": None}, "immutable": True}
    operations.api.merge(operations.owned["token secret"], body)
    yield "emptied the token and made it immutable"


@act()
def seal_trust(operations: Operations, drawn: Drawn) -> Doing:
    """Write something else into the ConfigMap with the authorities, and make it immutable."""
    path = operations.core("configmaps", f"{operations.name}-trust")
    operations.api.merge(path, {"data": {"ca.crt": "not a certificate\n"}, "immutable": True})
    yield "wrote over the trust and made it immutable"


_CIRCUMSTANCES = ("HostDeleted", "VolumeNotMounted", "PodCannotStart")


@act()
def note_claim_suspected(operations: Operations, drawn: Drawn) -> Doing:
    """Write on the claim of a running member that its host or volume was lost."""
    member = operations.member(drawn)
    note = json.dumps({"reason": drawn.one_of(_CIRCUMSTANCES), "evidence": BY_HAND, "at": 1.0})
    notes = {"annotations": {f"{_PREFIX}/failed": note}}
    operations.api.merge(
        operations.core("persistentvolumeclaims", member.claim), {"metadata": notes}
    )
    yield f"noted on {member.claim}: {note}"


@act(destroys=1)
def note_claim_recovered(operations: Operations, drawn: Drawn) -> Doing:
    """Write on a claim that its member becomes the sole voter, and delete its StatefulSet."""
    member = operations.member(drawn)
    if member.uuid is None:
        raise TargetMissing(f"{member.name} has no UUID yet")
    log = operations.quorum.node_description(member.pod)
    epoch, end = log.get("logEndEpoch", 1), log.get("logEndOffset", 1)
    notes = {"annotations": {f"{_PREFIX}/recovery": f"{member.uuid}:{epoch}:{end}"}}
    operations.api.merge(
        operations.core("persistentvolumeclaims", member.claim), {"metadata": notes}
    )
    operations.delete(operations.set_path(member))
    yield f"noted a recovery on {member.claim}; deleted {member.name}"


@act()
def swap_uuids(operations: Operations, drawn: Drawn) -> Doing:
    """Write on each StatefulSet the replica UUID of the next one."""
    members = operations.members()
    uuids = [each.uuid for each in members]
    for each, uuid in zip(members, [*uuids[1:], *uuids[:1]], strict=True):
        notes = {"annotations": {f"{_PREFIX}/replica-uuid": uuid}}
        operations.api.merge(operations.set_path(each), {"metadata": notes})
    yield f"swapped the UUIDs of {len(members)} StatefulSets"


@act()
def rename_cluster_and_delete_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Write another cluster id into the arguments of all members, and delete the identity."""

    def change(found: Json) -> None:
        container = found["spec"]["template"]["spec"]["containers"][0]
        container["args"] = [
            f"cluster.id={_OTHER_CLUSTER}" if each.startswith("cluster.id=") else each
            for each in container.get("args") or []
        ]

    for member in operations.members():
        operations.edit(operations.set_path(member), change)
    operations.delete(operations.owned["identity"])
    yield "wrote another cluster id into all templates; deleted the identity"


@act(endings=(CONFLICT,))
def write_cluster_id_and_delete_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Write another cluster id into the status, and delete the identity."""
    status = {"clusterId": _OTHER_CLUSTER, "voters": 99}
    operations.api.merge(f"{operations.quorum.path}/status", {"status": status})
    operations.delete(operations.owned["identity"])
    yield "wrote another cluster id into the status; deleted the identity"


@act()
def replace_identity(operations: Operations, drawn: Drawn) -> Doing:
    """Replace the identity by one of another cluster."""
    path = operations.owned["identity"]
    found = operations.api.find(path)
    if found is None:
        raise TargetMissing(path)
    keep = ("name", "labels", "ownerReferences", "annotations")
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {key: found["metadata"][key] for key in keep if key in found["metadata"]},
        "data": {**found["data"], "clusterId": _OTHER_CLUSTER},
        "immutable": True,
    }
    operations.delete(path)
    operations.api.create(operations.core("configmaps", ""), made)
    yield "replaced the identity by that of another cluster"


@act(lasts_s=_PASSES)
def take_identity_name(operations: Operations, drawn: Drawn) -> Doing:
    """Make an identity of a formation that never was; delete it after a while."""
    name = f"{operations.name}-identity-{2 + drawn.choice % 7}"
    found = operations.api.get(operations.owned["identity"])
    keep = ("labels", "ownerReferences", "annotations")
    meta = {key: found["metadata"][key] for key in keep if key in found["metadata"]}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": name}}
    path = operations.core("configmaps", name)
    operations.api.create(
        operations.core("configmaps", ""),
        {**made, "data": {**found["data"], "clusterId": _OTHER_CLUSTER}},
    )
    yield f"made {name}"
    operations.api.delete(path)


@act()
def name_many_members(operations: Operations, drawn: Drawn) -> Doing:
    """Write hundreds of members that there are none of into the status."""
    members = [{"id": 1_000 + each, "incarnation": 1} for each in range(500)]
    operations.api.merge(f"{operations.quorum.path}/status", {"status": {"members": members}})
    yield "named 500 members in the status"


@act(destroys=1)
def take_highest_number(operations: Operations, drawn: Drawn) -> Doing:
    """Make a claim with the highest number that a member may have, and delete the member's own."""
    member = operations.member(drawn)
    taken = f"data-{operations.name}-{member.node_id}-999999999-0"
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": taken},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    path = operations.core("persistentvolumeclaims", taken)
    if operations.api.find(path) is None:
        operations.api.create(operations.core("persistentvolumeclaims", ""), claim)
    operations.delete(operations.core("persistentvolumeclaims", member.claim))
    yield f"made {taken}, deleted {member.claim}"


@act()
def expand_claim_by_hand(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for more room in a claim than the resource does, where its class allows that."""
    member = operations.member(drawn)
    more = {"spec": {"resources": {"requests": {"storage": "400Mi"}}}}
    try:
        operations.api.merge(operations.core("persistentvolumeclaims", member.claim), more)
    except ApiError as error:
        if error.status not in {403, 422}:
            raise
        raise TargetMissing(f"the class of {member.claim} does not expand") from error
    yield f"{member.claim} asks for 400Mi"


ACTS: tuple[Act, ...] = (
    give_set_away,
    give_everything_away,
    give_base_object_away,
    share_object,
    give_pod_away,
    own_set_by_nobody,
    edit_service_traffic,
    alias_service,
    seal_token,
    seal_trust,
    note_claim_suspected,
    note_claim_recovered,
    swap_uuids,
    rename_cluster_and_delete_identity,
    write_cluster_id_and_delete_identity,
    replace_identity,
    take_identity_name,
    name_many_members,
    take_highest_number,
    expand_claim_by_hand,
)
