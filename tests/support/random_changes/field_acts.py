"""Acts on those fields of the spec that few people set: even sizes, updates, pod templates, network policies, backups, earlier claims."""

import contextlib

from support.envtest.kube_api import Json
from support.random_changes.act import Act, Answer, Doing, Drawn, FinalCondition, act
from support.random_changes.operations import Member, Operations, TargetMissing

_PASSES = (4.0, 15.0)
_PROPERTY = "controller.quorum.fetch.timeout.ms"


@act(wants=2)
def scale_to_two(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for two voters, as an even number is allowed."""
    operations.want(allowEvenReplicas=True, replicas=2)
    yield "allowEvenReplicas; replicas: 2"


@act(wants=2)
def change_two_voters(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for two voters with another property."""
    operations.want(allowEvenReplicas=True, replicas=2, config={_PROPERTY: "2400"})
    yield "allowEvenReplicas; replicas: 2; config: fetch.timeout.ms 2400"


@act(wants=4)
def scale_to_four(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for four voters, as an even number is allowed."""
    operations.want(allowEvenReplicas=True, replicas=4)
    yield "allowEvenReplicas; replicas: 4"


@act(wants=5)
def scale_by_subresource(operations: Operations, drawn: Drawn) -> Doing:
    """Run kubectl scale on the resource."""
    words = ("scale", "metadataquorum", operations.name, "--replicas=5")
    operations.good["replicas"] = 5
    yield f"replicas: 5, {operations.kubectl('-n', operations.namespace, *words).strip()}"


@act()
def retire_every_member(operations: Operations, drawn: Drawn) -> Doing:
    """Name all members in spec.retire."""
    retired = {*(operations.good["retire"] or []), *(each.node_id for each in operations.members())}
    operations.want(retire=sorted(retired))
    yield f"retire: {sorted(retired)}"


@act()
def update_with_canary(operations: Operations, drawn: Drawn) -> Doing:
    """Change a property, with one member first."""
    operations.want(update={"soakSeconds": 4}, config={_PROPERTY: drawn.one_of(("2150", "2250"))})
    yield f"update.soakSeconds: 4; config: {operations.good['config']}"


@act(lasts_s=_PASSES)
def hold_update(operations: Operations, drawn: Drawn) -> Doing:
    """Change a property while updates are paused, or their window is closed, for a while."""
    closed = {"windows": [{"start": "0 3 29 2 *", "durationMinutes": 1}]}
    operations.want(config={_PROPERTY: "2350"})
    operations.wish(update=drawn.one_of(({"paused": True}, closed)))
    yield f"config: {operations.good['config']}, and no update"
    operations.restore("update")


def _corrects(*fields: str) -> Answer:
    def answer(operations: Operations, message: str) -> str:
        operations.restore(*fields)
        return f"corrected spec.{', spec.'.join(fields)}"

    return answer


_CANARY_FAILED = FinalCondition("Updated", "Correct the spec", _corrects("image"), status="False")
# Without a version that all members ran, no rollback is possible.
_NO_WAY_BACK = FinalCondition("Degraded", "ImagePull|ErrImage", _corrects("image"))


@act(endings=(_CANARY_FAILED, _NO_WAY_BACK))
def canary_fails_left(operations: Operations, drawn: Drawn) -> Doing:
    """Name an image that does not exist, with one member first, and leave it so."""
    operations.want(update={"soakSeconds": 4, "canaryTimeoutSeconds": 10})
    operations.wish(image="127.0.0.1:1/no-such:4")
    yield "update.soakSeconds: 4; image: no such"


@act()
def other_pod_template(operations: Operations, drawn: Drawn) -> Doing:
    """Add labels, annotations and a variable to the pods."""
    template = {
        "labels": {"example.com/team": "by-chance"},
        "annotations": {"example.com/note": "by-chance"},
        "env": [{"name": "EXAMPLE", "value": str(drawn.choice % 3)}],
    }
    operations.want(podTemplate=template)
    yield "podTemplate: labels, annotations, env"


_MISSING: tuple[Json, ...] = (
    {"serviceAccountName": "no-such"},
    {"priorityClassName": "no-such"},
    {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "no-such", "key": "a"}}}]},
    {"zoneSpread": "Required"},
)


@act(lasts_s=_PASSES)
def missing_for_pods(operations: Operations, drawn: Drawn) -> Doing:
    """Let pods need a ServiceAccount, a PriorityClass, a Secret or zones that there are none of, and correct it."""
    template = drawn.one_of(_MISSING)
    operations.wish(podTemplate=template)
    yield f"podTemplate: {template}"
    operations.restore("podTemplate")


def _delete_pod(operations: Operations, member: Member) -> None:
    """A pod that does not exist is made with the changed spec anyway, which has to be corrected."""
    with contextlib.suppress(TargetMissing):
        operations.delete(operations.core("pods", member.pod))


@act(lasts_s=_PASSES)
def missing_for_pods_and_deleted(operations: Operations, drawn: Drawn) -> Doing:
    """Let pods need what there is not, delete one, and correct it."""
    template = drawn.one_of(_MISSING)
    member = operations.member(drawn)
    operations.wish(podTemplate=template)
    _delete_pod(operations, member)
    yield f"podTemplate: {template}; deleted a pod"
    operations.restore("podTemplate")


_NO_ACCOUNT = FinalCondition("Refused", "service ?account", _corrects("podTemplate"))


@act(endings=(_NO_ACCOUNT,))
def missing_account_left(operations: Operations, drawn: Drawn) -> Doing:
    """Name a ServiceAccount that does not exist, and leave it so."""
    operations.wish(podTemplate={"serviceAccountName": "no-such"})
    yield "podTemplate.serviceAccountName: no-such"


@act(lasts_s=_PASSES)
def pull_always(operations: Operations, drawn: Drawn) -> Doing:
    """Pull an image always that is in no registry, delete a pod, and correct it."""
    member = operations.member(drawn)
    operations.wish(imagePullPolicy="Always")
    _delete_pod(operations, member)
    yield f"imagePullPolicy: Always; deleted {member.pod}"
    operations.restore("imagePullPolicy")


@act(lasts_s=_PASSES)
def other_user(operations: Operations, drawn: Drawn) -> Doing:
    """Run the nodes as a user who may not read the disks, and correct it."""
    operations.wish(podTemplate={"securityContext": {"runAsUser": 4444, "runAsGroup": 4444}})
    yield "podTemplate.securityContext.runAsUser: 4444"
    operations.restore("podTemplate")


@act(lasts_s=_PASSES)
def no_network_policy(operations: Operations, drawn: Drawn) -> Doing:
    """Do without a NetworkPolicy for a while."""
    operations.wish(networkPolicy={"mode": "Disabled"})
    yield "networkPolicy.mode: Disabled"
    operations.restore("networkPolicy")


@act()
def other_peers(operations: Operations, drawn: Drawn) -> Doing:
    """Let further peers reach the members."""
    every: Json = {"namespaceSelector": {}}
    field = drawn.one_of(("controllerFrom", "adminFrom", "metricsFrom", "egressTo"))
    operations.want(networkPolicy={field: [every]})
    yield f"networkPolicy.{field}: every namespace"


@act()
def backup_to_nowhere(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for backups on a claim that does not exist."""
    operations.want(backup={"schedule": "@daily", "claimName": "no-such"})
    yield "backup.claimName: no-such"


@act()
def decide_on_earlier_claims(operations: Operations, drawn: Drawn) -> Doing:
    """Say what becomes of claims of an earlier resource, of which there are none."""
    adopted = {"policy": "Adopt", "clusterId": "somebody-elses"}
    operations.want(earlierClaims=drawn.one_of(({"policy": "Leave"}, adopted)))
    yield f"earlierClaims: {operations.good['earlierClaims']}"


@act(destroys=1)
def fail_disk_and_keep_it_a_second(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, where volumes of failed members are kept for a second."""
    operations.want(storage={**operations.good["storage"], "keepFailedFor": "1s"})
    member = operations.member(drawn)
    operations.env.cluster.volumes.disks.fail(operations.disk_of(member))
    yield f"storage.keepFailedFor: 1s; shut down the disk of {member.name}"


@act()
def smaller_storage(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for smaller disks."""
    operations.want(storage={**operations.good["storage"], "size": "100Mi"})
    yield "storage.size: 100Mi"


@act()
def default_storage_class(operations: Operations, drawn: Drawn) -> Doing:
    """Leave the storage class to the cluster."""
    storage = {
        key: value for key, value in operations.good["storage"].items() if key != "storageClassName"
    }
    operations.want(storage=storage)
    yield "storage.storageClassName: none"


_MISSING_TLS: tuple[Json, ...] = (
    {"trustedCAs": [{"secret": {"name": "no-such"}}]},
    {"caSecret": {"name": "no-such"}},
)


@act(lasts_s=_PASSES)
def missing_authority(operations: Operations, drawn: Drawn) -> Doing:
    """Name an authority that does not exist, and correct it."""
    named = drawn.one_of(_MISSING_TLS)
    operations.wish(tls=named)
    yield f"tls: {named}"
    operations.restore("tls")


@act(endings=(FinalCondition("TlsBlocked", "no-such", _corrects("tls")),))
def missing_authority_left(operations: Operations, drawn: Drawn) -> Doing:
    """Name an authority that does not exist, and leave it so."""
    named = drawn.one_of(_MISSING_TLS)
    operations.wish(tls=named)
    yield f"tls: {named}"


@act(lasts_s=_PASSES)
def tls_switched_off(operations: Operations, drawn: Drawn) -> Doing:
    """Ask a quorum with certificates to do without them, and correct it."""
    operations.wish(tls={"mode": "Disabled"})
    yield "tls.mode: Disabled"
    operations.restore("tls")


ACTS: tuple[Act, ...] = (
    scale_to_two,
    change_two_voters,
    scale_to_four,
    scale_by_subresource,
    retire_every_member,
    update_with_canary,
    hold_update,
    canary_fails_left,
    other_pod_template,
    missing_for_pods,
    missing_for_pods_and_deleted,
    missing_account_left,
    pull_always,
    other_user,
    no_network_policy,
    other_peers,
    backup_to_nowhere,
    decide_on_earlier_claims,
    fail_disk_and_keep_it_a_second,
    smaller_storage,
    default_storage_class,
    missing_authority,
    missing_authority_left,
    tls_switched_off,
)
