"""Two acts at the same time, of which the second interferes with the operator's reaction to the first."""

from support.anything.act import Act, Doing, Drawn, act
from support.anything.hands import Hands

_PASSES = (4.0, 15.0)


def _fail_disk(hands: Hands, drawn: Drawn) -> str:
    member = hands.member(drawn)
    hands.env.cluster.volumes.disks.fail(hands.disk_of(member))
    return f"shut down the disk of {member.name}"


@act(destroys=1, lasts_s=_PASSES)
def pause_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and pause the quorum for a while."""
    told = _fail_disk(hands, drawn)
    hands.wish(paused=True)
    yield f"{told}; paused: true"
    hands.restore("paused")


@act(destroys=1)
def change_tls_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and ask for one more certificate."""
    told = _fail_disk(hands, drawn)
    hands.want(tls={"identities": [{"name": "by-hand", "role": "reader"}]})
    yield f"{told}; tls.identities: by-hand"


@act(destroys=1)
def new_property_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and change a property of the nodes."""
    told = _fail_disk(hands, drawn)
    hands.want(config={"controller.quorum.fetch.timeout.ms": drawn.one_of(("2300", "2600"))})
    yield f"{told}; config: fetch.timeout.ms"


@act(destroys=1)
def kill_operator_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and kill the operator."""
    told = _fail_disk(hands, drawn)
    hands.env.kill_operator()
    yield f"{told}; killed the operator"


@act(destroys=1, lasts_s=_PASSES)
def taint_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and taint the host of another one NoExecute for a while."""
    host = hands.host_of(hands.other(drawn, hands.member(drawn)))
    told = _fail_disk(hands, drawn)
    hands.kubectl("taint", "node", host, "by-hand=yes:NoExecute", "--overwrite")
    yield f"{told}; tainted {host}"
    hands.kubectl("taint", "node", host, "by-hand-")


@act(destroys=1, lasts_s=_PASSES)
def cordon_all_while_disk_fails(hands: Hands, drawn: Drawn) -> Doing:
    """Shut a member's disk down, while all hosts are cordoned."""
    for host in hands.workers:
        hands.kubectl("cordon", host)
    yield f"{_fail_disk(hands, drawn)}; cordoned all hosts"
    for host in hands.workers:
        hands.kubectl("uncordon", host)


@act(destroys=1, lasts_s=_PASSES)
def stop_host_while_set_is_deleted(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the StatefulSet of a member, and switch its host off for a while."""
    member = hands.member(drawn)
    host = hands.host_of(member)
    hands.delete(hands.set_path(member))
    with hands.switched_off(host):
        yield f"deleted {member.name}; switched {host} off"


ACTS: tuple[Act, ...] = (
    pause_while_disk_fails,
    change_tls_while_disk_fails,
    new_property_while_disk_fails,
    kill_operator_while_disk_fails,
    taint_while_disk_fails,
    cordon_all_while_disk_fails,
    stop_host_while_set_is_deleted,
)
