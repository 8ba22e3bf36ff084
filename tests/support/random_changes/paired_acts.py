"""Two acts at the same time, of which the second interferes with the operator's reaction to the first."""

from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Operations

_PASSES = (4.0, 15.0)


def _fail_disk(operations: Operations, drawn: Drawn) -> str:
    member = operations.member(drawn)
    operations.env.cluster.volumes.disks.fail(operations.disk_of(member))
    return f"shut down the disk of {member.name}"


@act(destroys=1, lasts_s=_PASSES)
def pause_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and pause the quorum for a while."""
    description = _fail_disk(operations, drawn)
    operations.wish(paused=True)
    yield f"{description}; paused: true"
    operations.restore("paused")


@act(destroys=1)
def change_tls_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and ask for one more certificate."""
    description = _fail_disk(operations, drawn)
    operations.want(tls={"identities": [{"name": "by-hand", "role": "reader"}]})
    yield f"{description}; tls.identities: by-hand"


@act(destroys=1)
def new_property_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and change a property of the nodes."""
    description = _fail_disk(operations, drawn)
    operations.want(config={"controller.quorum.fetch.timeout.ms": drawn.one_of(("2300", "2600"))})
    yield f"{description}; config: fetch.timeout.ms"


@act(destroys=1)
def kill_operator_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and kill the operator."""
    description = _fail_disk(operations, drawn)
    operations.env.kill_operator()
    yield f"{description}; killed the operator"


@act(destroys=1, lasts_s=_PASSES)
def taint_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, and taint the host of another one NoExecute for a while."""
    host = operations.host_of(operations.other(drawn, operations.member(drawn)))
    description = _fail_disk(operations, drawn)
    operations.kubectl("taint", "node", host, "by-hand=yes:NoExecute", "--overwrite")
    yield f"{description}; tainted {host}"
    operations.kubectl("taint", "node", host, "by-hand-")


@act(destroys=1, lasts_s=_PASSES)
def cordon_all_while_disk_fails(operations: Operations, drawn: Drawn) -> Doing:
    """Shut a member's disk down, while all hosts are cordoned."""
    for host in operations.workers:
        operations.kubectl("cordon", host)
    yield f"{_fail_disk(operations, drawn)}; cordoned all hosts"
    for host in operations.workers:
        operations.kubectl("uncordon", host)


@act(destroys=1, lasts_s=_PASSES)
def stop_host_while_set_is_deleted(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the StatefulSet of a member, and switch its host off for a while."""
    member = operations.member(drawn)
    host = operations.host_of(member)
    operations.delete(operations.set_path(member))
    with operations.switched_off(host):
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
