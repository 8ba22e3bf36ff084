"""Acts on the infrastructure of members: disks, claims, hosts, links and quotas."""

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.testbed import network, nodes
from support.random_changes.act import Act, Doing, Drawn, FinalCondition, act
from support.random_changes.operations import Operations, TargetMissing

_PASSES = (4.0, 15.0)


@act(destroys=1)
def fail_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down: every access gives EIO."""
    member = operations.member(drawn)
    operations.env.cluster.volumes.disks.fail(operations.disk_of(member))
    yield f"shut down the disk of {member.name}"


@act(destroys=1, lasts_s=_PASSES)
def fail_disk_and_heal(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and bring it back as it was."""
    member = operations.member(drawn)
    disk = operations.disk_of(member)
    operations.env.cluster.volumes.disks.fail(disk)
    yield f"shut down the disk of {member.name}"
    operations.env.cluster.volumes.disks.heal(disk)


def _empty_the_disks(operations: Operations, message: str) -> str:
    """What the condition asks for: room on the disks that are full."""
    disks = operations.env.cluster.volumes.disks
    emptied = []
    for disk in disks.all():
        if (disks.mount_point(disk) / ".filler").exists():
            disks.empty(disk)
            emptied.append(str(disk))
    return f"made room on {', '.join(emptied)}"


_DISK_IS_FULL = FinalCondition("DiskFull", "make room|enlarge the volume", _empty_the_disks)


@act(endings=(_DISK_IS_FULL,))
def fill_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Fill a member's disk."""
    member = operations.member(drawn)
    operations.env.cluster.volumes.disks.fill(operations.disk_of(member))
    yield f"filled the disk of {member.name}"


def _recovers(operations: Operations, message: str) -> str:
    """Accepts what is offered, as the guide to recovery says: `kubectl patch` with status.quorumLoss.offer."""
    offer = operations.quorum.status()["quorumLoss"]["offer"]
    operations.want(recovery=offer)
    return f"spec.recovery: {offer}"


_IS_LOST = FinalCondition(
    "QuorumLost", "set spec.recovery to the value of status.quorumLoss.offer", _recovers
)


@act(alone=True, endings=(_IS_LOST,))
def lose_the_majority(operations: Operations, drawn: Drawn) -> Doing:
    """Shut the disks of all members down but the leader's, which has all that was acknowledged."""
    described = operations.quorum.describe()
    if described is None or len(described.voters) < 2:
        raise TargetMissing("no leader of several voters")
    others = [each for each in operations.members() if each.uuid != described.leader_uuid]
    disks = [operations.disk_of(each) for each in others]
    for each in disks:
        operations.env.cluster.volumes.disks.fail(each)
    yield f"shut down the disks of {[each.name for each in others]}"


@act(destroys=1)
def delete_claim(operations: Operations, drawn: Drawn) -> Doing:
    """Delete a member's claim: it is Terminating under the pod."""
    member = operations.member(drawn)
    operations.delete(operations.core("persistentvolumeclaims", member.claim))
    yield f"deleted {member.claim}"


@act(destroys=1)
def delete_claim_and_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Delete a member's claim and its pod: an empty volume takes its place."""
    member = operations.member(drawn)
    operations.delete(operations.core("persistentvolumeclaims", member.claim))
    operations.api.delete(operations.core("pods", member.pod))
    yield f"deleted {member.claim} and {member.pod}"


@act(destroys=1)
def delete_volume(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the PersistentVolume under a member's claim."""
    member = operations.member(drawn)
    volume = operations.disk_of(member).volume_name
    operations.delete(f"{kube.VOLUMES}/{volume}")
    yield f"deleted {volume} under {member.claim}"


@act(lasts_s=_PASSES)
def cordon(operations: Operations, drawn: Drawn) -> Doing:
    """Cordon a member's host for a while."""
    host = operations.host_of(operations.member(drawn))
    operations.kubectl("cordon", host)
    yield f"cordoned {host}"
    operations.kubectl("uncordon", host)


@act(lasts_s=_PASSES)
def drain(operations: Operations, drawn: Drawn) -> Doing:
    """Drain a member's host, and uncordon it."""
    host = operations.host_of(operations.member(drawn))
    # The operator may run on this host: it is evicted like every other pod.
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=8s")
    operations.kubectl("drain", host, *options)
    yield f"drained {host}"
    operations.kubectl("uncordon", host)


@act(lasts_s=_PASSES)
def taint(operations: Operations, drawn: Drawn) -> Doing:
    """Taint a member's host NoExecute for a while: whoever does not tolerate that is evicted."""
    host = operations.host_of(operations.member(drawn))
    operations.kubectl("taint", "node", host, "by-hand=yes:NoExecute", "--overwrite")
    yield f"tainted {host}"
    operations.kubectl("taint", "node", host, "by-hand-")


@act(lasts_s=_PASSES)
def stop_host(operations: Operations, drawn: Drawn) -> Doing:
    """Switch a member's host off, and on again."""
    host = operations.host_of(operations.member(drawn))
    with operations.switched_off(host):
        yield f"switched {host} off"


@act(destroys=1, lasts_s=(55.0, 70.0))
def host_stays_away(operations: Operations, drawn: Drawn) -> Doing:
    """Switch a member's host off for longer than spec.repair.unreachableAfterSeconds allows."""
    host = operations.host_of(operations.member(drawn))
    operations.wish(repair={**(operations.good["repair"] or {}), "unreachableAfterSeconds": 10})
    with operations.switched_off(host):
        yield f"switched {host} off for long"
    operations.restore("repair")


@act(wants=3, lasts_s=(20.0, 40.0))
def scale_while_host_is_away(operations: Operations, drawn: Drawn) -> Doing:
    """Switch a member's host off, and ask for another number of voters meanwhile."""
    replicas = 3 if operations.good["replicas"] == 5 else 5
    host = operations.host_of(operations.member(drawn))
    with operations.switched_off(host):
        operations.want(replicas=replicas)
        yield f"switched {host} off; replicas: {replicas}"


@act(destroys=1, lasts_s=(20.0, 40.0))
def retire_while_host_is_away(operations: Operations, drawn: Drawn) -> Doing:
    """Switch a member's host off, and name the member in spec.retire."""
    member = operations.member(drawn)
    host = operations.host_of(member)
    with operations.switched_off(host):
        operations.want(retire=sorted({*(operations.good["retire"] or []), member.node_id}))
        yield f"switched {host} off; retire: {operations.good['retire']}"


@act(lasts_s=_PASSES)
def delete_node_object(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Node object of a member's host, and bring it back with the range of its pods' addresses.

    With another range the pods that still run there could not be reached from hosts that start afterwards.
    """
    host = operations.host_of(operations.member(drawn))
    node = operations.api.get(f"{kube.NODES}/{host}")
    operations.delete(f"{kube.NODES}/{host}")
    yield f"deleted Node {host}"
    ranges = {key: node["spec"][key] for key in ("podCIDR", "podCIDRs")}
    kept = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": ranges}
    operations.api.create(kube.NODES, body)
    nodes.restart_kubelet(host)


@act()
def restart_kubelet(operations: Operations, drawn: Drawn) -> Doing:
    """Restart the kubelet of a member's host."""
    host = operations.host_of(operations.member(drawn))
    nodes.restart_kubelet(host)
    yield f"restarted the kubelet of {host}"


@act(lasts_s=_PASSES)
def cut_member_off(operations: Operations, drawn: Drawn) -> Doing:
    """Drop every packet from and to a member's pod, for a while."""
    member = operations.member(drawn)
    host = operations.host_of(member)
    network.cut_pod(host, operations.address_of(member))
    yield f"cut {member.pod} off"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_pair(operations: Operations, drawn: Drawn) -> Doing:
    """Drop the packets between two members, for a while."""
    one = operations.member(drawn)
    other = operations.other(drawn, one)
    host = operations.host_of(one)
    network.cut_pair(host, operations.address_of(one), operations.address_of(other))
    yield f"cut the link of {one.pod} and {other.pod}"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_one_way(operations: Operations, drawn: Drawn) -> Doing:
    """Drop the packets from one member to another, but not back, for a while."""
    one = operations.member(drawn)
    other = operations.other(drawn, one)
    host = operations.host_of(one)
    network.cut_one_way(host, operations.address_of(one), operations.address_of(other))
    yield f"cut the way from {one.pod} to {other.pod}"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_host_off(operations: Operations, drawn: Drawn) -> Doing:
    """Drop every packet from and to a member's host, for a while."""
    host = operations.host_of(operations.member(drawn))
    network.cut_node(host)
    yield f"cut {host} off"
    network.heal(host)


@act(lasts_s=_PASSES)
def quota(operations: Operations, drawn: Drawn) -> Doing:
    """Set a quota under which no pod, claim or StatefulSet can be made, for a while."""
    what = drawn.one_of(("pods", "persistentvolumeclaims", "count/statefulsets.apps", "configmaps"))
    no_more_of(operations, what)
    yield f"quota: no {what}"
    operations.api.delete(operations.core("resourcequotas", "by-hand"))


def no_more_of(operations: Operations, what: str) -> None:
    """A quota; one that is there already is given this limit as well."""
    body: Json = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "by-hand", "namespace": operations.namespace},
        "spec": {"hard": {what: "0"}},
    }
    operations.api.apply(operations.core("resourcequotas", "by-hand"), body)


ACTS: tuple[Act, ...] = (
    fail_disk,
    fail_disk_and_heal,
    fill_disk,
    lose_the_majority,
    delete_claim,
    delete_claim_and_pod,
    delete_volume,
    cordon,
    drain,
    taint,
    stop_host,
    host_stays_away,
    scale_while_host_is_away,
    retire_while_host_is_away,
    delete_node_object,
    restart_kubelet,
    cut_member_off,
    cut_pair,
    cut_one_way,
    cut_host_off,
    quota,
)
