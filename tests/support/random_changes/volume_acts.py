"""Acts on what stands on a member's disk, and on the way to it: emptied, overwritten, read-only, frozen; hosts that stand still."""

from pathlib import Path

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.testbed import nodes, run
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Member, Operations, TargetMissing

_PASSES = (4.0, 15.0)
_HOST_LABEL = "kubernetes.io/hostname"


def _mount_point(operations: Operations, member: Member) -> Path:
    return operations.env.cluster.volumes.disks.mount_point(operations.disk_of(member))


def _as_root(*command: str) -> None:
    run(["sh", "-c", *command], timeout_s=60)


@act(destroys=1)
def empty_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Delete all files on a member's disk, and kill its process."""
    member = operations.member(drawn)
    _as_root(
        f"rm -rf {_mount_point(operations, member)}/* {_mount_point(operations, member)}/.[!.]*"
    )
    operations.env.faults.kill_9(member.pod)
    yield f"emptied the disk of {member.name}"


@act(destroys=1)
def overwrite_log(operations: Operations, drawn: Drawn) -> Doing:
    """Overwrite a part of a member's log, and kill its process."""
    member = operations.member(drawn)
    logs = sorted(_mount_point(operations, member).rglob("*.log"))
    if not logs:
        raise TargetMissing("no log")
    size = logs[0].stat().st_size
    _as_root(
        f"dd if=/dev/urandom of={logs[0]} bs=64 count=8 seek={size // 256} conv=notrunc 2>/dev/null"
    )
    operations.env.faults.kill_9(member.pod)
    yield f"overwrote a part of {logs[0].name} of {member.name}"


@act(destroys=1)
def read_only_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Kill a member's process, and mount its disk read-only before the next one opens a file for writing."""
    member = operations.member(drawn)
    operations.env.faults.kill_9(member.pod)
    _as_root(f"mount -o remount,ro {_mount_point(operations, member)}")
    yield f"the disk of {member.name} is read-only"


@act(lasts_s=(4.0, 12.0))
def freeze_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Let every write on a member's disk wait, for a while."""
    member = operations.member(drawn)
    point = _mount_point(operations, member)
    _as_root(f"fsfreeze -f {point}")
    yield f"froze the disk of {member.name}"
    _as_root(f"fsfreeze -u {point}")


@act(destroys=1)
def close_disk(operations: Operations, drawn: Drawn) -> Doing:
    """Take everybody's rights off a member's disk, and kill its process."""
    member = operations.member(drawn)
    _as_root(
        f"chown 0:0 {_mount_point(operations, member)}; chmod 0700 {_mount_point(operations, member)}"
    )
    operations.env.faults.kill_9(member.pod)
    yield f"no permission to read the disk of {member.name}"


@act(lasts_s=_PASSES)
def pause_host(operations: Operations, drawn: Drawn) -> Doing:
    """Let a member's host stand still with all that runs on it, for a while."""
    host = operations.host_of(operations.member(drawn))
    run(["docker", "pause", host], timeout_s=60)
    yield f"{host} stands still"
    run(["docker", "unpause", host], timeout_s=60)


@act()
def restart_containerd(operations: Operations, drawn: Drawn) -> Doing:
    """Restart the container runtime of a member's host."""
    host = operations.host_of(operations.member(drawn))
    nodes.on_node(host, ["systemctl", "restart", "containerd"])
    yield f"restarted containerd of {host}"


@act(lasts_s=_PASSES)
def relabel_host(operations: Operations, drawn: Drawn) -> Doing:
    """Call a member's host by another name in its label, for a while."""
    host = operations.host_of(operations.member(drawn))
    labels: Json = {_HOST_LABEL: "by-hand"}
    operations.api.merge(f"{kube.NODES}/{host}", {"metadata": {"labels": labels}})
    yield f"{host} is labelled by-hand"
    operations.api.merge(f"{kube.NODES}/{host}", {"metadata": {"labels": {_HOST_LABEL: host}}})


ACTS: tuple[Act, ...] = (
    empty_disk,
    overwrite_log,
    read_only_disk,
    freeze_disk,
    close_disk,
    pause_host,
    restart_containerd,
    relabel_host,
)
