"""Acts on the infrastructure of members: disks, claims, hosts, links and quotas."""

from support.anything.act import Act, Doing, Drawn, Ending, act
from support.anything.hands import Hands, NothingThere
from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.testbed import network, nodes

_PASSES = (4.0, 15.0)


@act(destroys=1)
def fail_disk(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down: every access gives EIO."""
    member = hands.member(drawn)
    hands.env.cluster.volumes.disks.fail(hands.disk_of(member))
    yield f"shut down the disk of {member.name}"


@act(destroys=1, lasts_s=_PASSES)
def fail_disk_and_heal(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and bring it back as it was."""
    member = hands.member(drawn)
    disk = hands.disk_of(member)
    hands.env.cluster.volumes.disks.fail(disk)
    yield f"shut down the disk of {member.name}"
    hands.env.cluster.volumes.disks.heal(disk)


def _empty_the_disks(hands: Hands, message: str) -> str:
    """What the condition asks for: room on the disks that are full."""
    disks = hands.env.cluster.volumes.disks
    emptied = []
    for disk in disks.all():
        if (disks.mount_point(disk) / ".filler").exists():
            disks.empty(disk)
            emptied.append(str(disk))
    return f"made room on {', '.join(emptied)}"


_DISK_IS_FULL = Ending("DiskFull", "make room|enlarge the volume", _empty_the_disks)


@act(endings=(_DISK_IS_FULL,))
def fill_disk(hands: Hands, drawn: Drawn) -> Doing:
    """Fill a member's disk."""
    member = hands.member(drawn)
    hands.env.cluster.volumes.disks.fill(hands.disk_of(member))
    yield f"filled the disk of {member.name}"


def _recovers(hands: Hands, message: str) -> str:
    """Accepts what is offered, as the guide to recovery says: `kubectl patch` with status.quorumLoss.offer."""
    offer = hands.quorum.status()["quorumLoss"]["offer"]
    hands.want(recovery=offer)
    return f"spec.recovery: {offer}"


_IS_LOST = Ending(
    "QuorumLost", "set spec.recovery to the value of status.quorumLoss.offer", _recovers
)


@act(alone=True, endings=(_IS_LOST,))
def lose_the_majority(hands: Hands, drawn: Drawn) -> Doing:
    """Shut the disks of all members down but the leader's, which has all that was acknowledged."""
    described = hands.quorum.describe()
    if described is None or len(described.voters) < 2:
        raise NothingThere("no leader of several voters")
    others = [each for each in hands.members() if each.uuid != described.leader_uuid]
    disks = [hands.disk_of(each) for each in others]
    for each in disks:
        hands.env.cluster.volumes.disks.fail(each)
    yield f"shut down the disks of {[each.name for each in others]}"


@act(destroys=1)
def delete_claim(hands: Hands, drawn: Drawn) -> Doing:
    """Delete a member's claim: it is Terminating under the pod."""
    member = hands.member(drawn)
    hands.delete(hands.core("persistentvolumeclaims", member.claim))
    yield f"deleted {member.claim}"


@act(destroys=1)
def delete_claim_and_pod(hands: Hands, drawn: Drawn) -> Doing:
    """Delete a member's claim and its pod: an empty volume takes its place."""
    member = hands.member(drawn)
    hands.delete(hands.core("persistentvolumeclaims", member.claim))
    hands.api.delete(hands.core("pods", member.pod))
    yield f"deleted {member.claim} and {member.pod}"


@act(destroys=1)
def delete_volume(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the PersistentVolume under a member's claim."""
    member = hands.member(drawn)
    volume = hands.disk_of(member).volume_name
    hands.delete(f"{kube.VOLUMES}/{volume}")
    yield f"deleted {volume} under {member.claim}"


@act(lasts_s=_PASSES)
def cordon(hands: Hands, drawn: Drawn) -> Doing:
    """Cordon a member's host for a while."""
    host = hands.host_of(hands.member(drawn))
    hands.kubectl("cordon", host)
    yield f"cordoned {host}"
    hands.kubectl("uncordon", host)


@act(lasts_s=_PASSES)
def drain(hands: Hands, drawn: Drawn) -> Doing:
    """Drain a member's host, and uncordon it."""
    host = hands.host_of(hands.member(drawn))
    # The operator may live there, too: it goes, as it would for anybody.
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=8s")
    hands.kubectl("drain", host, *options)
    yield f"drained {host}"
    hands.kubectl("uncordon", host)


@act(lasts_s=_PASSES)
def taint(hands: Hands, drawn: Drawn) -> Doing:
    """Taint a member's host NoExecute for a while: whoever does not tolerate that is evicted."""
    host = hands.host_of(hands.member(drawn))
    hands.kubectl("taint", "node", host, "by-hand=yes:NoExecute", "--overwrite")
    yield f"tainted {host}"
    hands.kubectl("taint", "node", host, "by-hand-")


@act(lasts_s=_PASSES)
def stop_host(hands: Hands, drawn: Drawn) -> Doing:
    """Switch a member's host off, and on again."""
    host = hands.host_of(hands.member(drawn))
    with hands.switched_off(host):
        yield f"switched {host} off"


@act(destroys=1, lasts_s=(55.0, 70.0))
def host_stays_away(hands: Hands, drawn: Drawn) -> Doing:
    """Switch a member's host off for longer than spec.repair.unreachableAfterSeconds allows."""
    hands.wish(repair={**(hands.good["repair"] or {}), "unreachableAfterSeconds": 10})
    host = hands.host_of(hands.member(drawn))
    with hands.switched_off(host):
        yield f"switched {host} off for long"
    hands.restore("repair")


@act(wants=3, lasts_s=(20.0, 40.0))
def scale_while_host_is_away(hands: Hands, drawn: Drawn) -> Doing:
    """Switch a member's host off, and ask for another number of voters meanwhile."""
    replicas = 3 if hands.good["replicas"] == 5 else 5
    host = hands.host_of(hands.member(drawn))
    with hands.switched_off(host):
        hands.want(replicas=replicas)
        yield f"switched {host} off; replicas: {replicas}"


@act(destroys=1, lasts_s=(20.0, 40.0))
def retire_while_host_is_away(hands: Hands, drawn: Drawn) -> Doing:
    """Switch a member's host off, and name the member in spec.retire."""
    member = hands.member(drawn)
    host = hands.host_of(member)
    with hands.switched_off(host):
        hands.want(retire=sorted({*(hands.good["retire"] or []), member.node_id}))
        yield f"switched {host} off; retire: {hands.good['retire']}"


@act(lasts_s=_PASSES)
def delete_node_object(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the Node object of a member's host; its kubelet comes back with it."""
    host = hands.host_of(hands.member(drawn))
    hands.delete(f"{kube.NODES}/{host}")
    yield f"deleted Node {host}"
    nodes.restart_kubelet(host)


@act()
def restart_kubelet(hands: Hands, drawn: Drawn) -> Doing:
    """Restart the kubelet of a member's host."""
    host = hands.host_of(hands.member(drawn))
    nodes.restart_kubelet(host)
    yield f"restarted the kubelet of {host}"


@act(lasts_s=_PASSES)
def cut_member_off(hands: Hands, drawn: Drawn) -> Doing:
    """Drop every packet from and to a member's pod, for a while."""
    member = hands.member(drawn)
    host = hands.host_of(member)
    network.cut_pod(host, hands.address_of(member))
    yield f"cut {member.pod} off"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_pair(hands: Hands, drawn: Drawn) -> Doing:
    """Drop the packets between two members, for a while."""
    one = hands.member(drawn)
    other = hands.other(drawn, one)
    host = hands.host_of(one)
    network.cut_pair(host, hands.address_of(one), hands.address_of(other))
    yield f"cut the link of {one.pod} and {other.pod}"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_one_way(hands: Hands, drawn: Drawn) -> Doing:
    """Drop the packets from one member to another, but not back, for a while."""
    one = hands.member(drawn)
    other = hands.other(drawn, one)
    host = hands.host_of(one)
    network.cut_one_way(host, hands.address_of(one), hands.address_of(other))
    yield f"cut the way from {one.pod} to {other.pod}"
    network.heal(host)


@act(lasts_s=_PASSES)
def cut_host_off(hands: Hands, drawn: Drawn) -> Doing:
    """Drop every packet from and to a member's host, for a while."""
    host = hands.host_of(hands.member(drawn))
    network.cut_node(host)
    yield f"cut {host} off"
    network.heal(host)


@act(lasts_s=_PASSES)
def quota(hands: Hands, drawn: Drawn) -> Doing:
    """Set a quota under which no pod, claim or StatefulSet can be made, for a while."""
    what = drawn.one_of(("pods", "persistentvolumeclaims", "count/statefulsets.apps", "configmaps"))
    no_more_of(hands, what)
    yield f"quota: no {what}"
    hands.api.delete(hands.core("resourcequotas", "by-hand"))


def no_more_of(hands: Hands, what: str) -> None:
    """A quota; one that is there already is given this limit as well."""
    body: Json = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "by-hand", "namespace": hands.namespace},
        "spec": {"hard": {what: "0"}},
    }
    hands.api.apply(hands.core("resourcequotas", "by-hand"), body)


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
