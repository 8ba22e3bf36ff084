"""Disks that really fail, and disks that are really full, under running replicas.

The failed disk is an XFS that is shut down: writes and fsyncs give EIO, as of a dead device.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.api import ErrorCode
from quorum_node.exit_codes import ExitCode
from quorum_node.storage.failure_latch import FAILURE_MARK
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.loop_disk import LoopDisk, require_loop_disks

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[LoopDisk]]:
    require_loop_disks()
    made: list[LoopDisk] = []
    yield made
    for disk in made:
        disk.close()


def quorum_on_disks(
    make_quorum, disks: list[LoopDisk], root: Path, voters: int = 3, **disk: object
) -> LocalQuorum:
    """Formed nodes, each with its data on a filesystem of its own."""
    quorum: LocalQuorum = make_quorum(voters)
    for node in quorum.nodes.values():
        made = LoopDisk(root / f"disk-{node.id}", **disk)  # type: ignore[arg-type]
        disks.append(made)
        node.data_dir = made.mount_point / "data"
        node.overrides["metadata.log.dir"] = str(node.data_dir)
    quorum.form()
    return quorum


def disk_of(node: LocalNode, disks: list[LoopDisk]) -> LoopDisk:
    return next(d for d in disks if d.mount_point == node.data_dir.parent)


def assert_died_of_storage(node: LocalNode) -> None:
    assert node.wait_exit() == ExitCode.STORAGE_FAILED, node.log_text
    message = json.loads(node.termination_message)
    assert message["reason"] == "StorageFailed"
    assert "EIO" in message["message"]
    assert message["nodeId"] == node.id
    assert json.loads((node.root / "failed").read_text()) == message


def wait_same_log(quorum: LocalQuorum, node: LocalNode) -> None:
    """A restarted controller registers, which is one more record, some time after it has caught up."""
    wait_until(
        lambda: list(quorum.log_records(node.id)) == list(quorum.log_records(quorum.leader.id)),
        f"node {node.id} has the log of its leader",
    )


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("victim", ["follower", "leader"])
def test_failed_disk_stops_only_its_replica(
    make_quorum, disks: list[LoopDisk], tmp_path: Path, victim: str
) -> None:
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=320)
    quorum.put("before", "1")
    leader = quorum.leader
    node = leader if victim == "leader" else quorum.followers[0]
    failed_at = time.monotonic()
    disk_of(node, disks).shut_down()
    quorum.put("after", "2")
    assert_died_of_storage(node)
    # Bounded in time, also where no operation waits for this replica.
    assert time.monotonic() - failed_at < 45
    assert quorum.get("before") == "1"
    assert quorum.get("after") == "2"
    if victim == "leader":
        assert quorum.leader.id != node.id
        texts = [n.log_text for n in quorum.nodes.values() if n is not node]
        assert any("candidate in epoch 2" in text for text in texts)
    # It never starts again, even if the disk looks healthy again.
    uuid = json.loads(node.termination_message)["replicaUuid"]
    node.data_dir = node.root / "healthy"
    node.overrides["metadata.log.dir"] = str(node.data_dir)
    node.start()
    assert node.wait_exit() == ExitCode.STORAGE_FAILED
    assert not node.data_dir.exists()
    voters = {(v["id"], v["uuid"]): v for v in quorum.describe()["voters"]}
    assert (node.id, uuid) in voters


@pytest.mark.requirement("K595-06")
def test_disk_that_recovers_after_a_failed_sync_has_all_acknowledged_records(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    """Not a documented procedure; but if both latches are removed, it is as safe as after a power cut."""
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=320)
    node = quorum.followers[0]
    writes = [f"key{number}" for number in range(30)]
    for number, key in enumerate(writes):
        quorum.put(key, "x" * 5000)
        if number == 20:
            disk_of(node, disks).shut_down()
    assert_died_of_storage(node)
    disk_of(node, disks).remount()
    node.start()
    assert node.wait_exit() == ExitCode.STORAGE_FAILED
    assert str(node.root / "failed") in json.loads(node.termination_message)["message"]
    (node.root / "failed").unlink()
    if (mark := node.data_dir / FAILURE_MARK).exists():
        node.start()  # either one is enough
        assert node.wait_exit() == ExitCode.STORAGE_FAILED
        (node.root / "failed").unlink()
        mark.unlink()
    node.start()
    quorum.wait_caught_up(node.id)
    end_offset = quorum.put("after", "1")["endOffset"]
    wait_until(lambda: quorum.local(node.id)["highWatermark"] >= end_offset, "it follows")
    wait_same_log(quorum, node)


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("voters", [1, 3])
def test_power_cut_of_all_disks_loses_no_acknowledged_record(
    make_quorum, disks: list[LoopDisk], tmp_path: Path, voters: int
) -> None:
    """Each file system loses at once what was not synced, and every process is killed."""
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, voters, size_mib=320)
    acknowledged = [f"key{number}" for number in range(40)]
    for key in acknowledged:
        quorum.put(key, "x" * 3000)
    for disk in disks:
        disk.shut_down()
    for node in quorum.nodes.values():
        node.kill()
    for node in quorum.nodes.values():
        disk_of(node, disks).remount()
        (node.root / "failed").unlink(missing_ok=True)
        node.start()
    wait_until(lambda: quorum.leader, "the quorum is back")
    for key in acknowledged:
        assert quorum.get(key) == "x" * 3000
    quorum.put("after", "1")


@pytest.mark.long
def test_idle_replica_detects_its_failed_disk(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=320)
    node = quorum.followers[0]
    disk_of(node, disks).shut_down()
    assert_died_of_storage(node)


def test_leader_hands_over_below_its_disk_reserve(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=48, kind="ext4")
    quorum.put("before", "1")
    leader = quorum.leader
    disk_of(leader, disks).fill(leave_bytes=MIB // 2)
    wait_until(lambda: quorum.leader.id != leader.id, "a voter with space leads")
    quorum.put("after", "2")
    assert quorum.local(leader.id)["storage"]["state"] == "full"
    assert leader.is_running
    assert not (leader.root / "failed").exists()


def test_leader_rejects_appends_below_all_disk_reserves_and_resumes_when_space_is_freed(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    """A shared pool is full."""
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=48, kind="ext4")
    quorum.put("before", "1")
    nodes = list(quorum.nodes.values())
    for node in nodes:
        disk_of(node, disks).fill(leave_bytes=MIB // 2)

    def is_full(node: LocalNode) -> bool:
        return bool(quorum.local(node.id)["storage"]["state"] == "full")

    def refused() -> bool:
        leader = quorum.leader
        answer = quorum.request("PUT", "/v1/configs/topic/t/x", leader.id, json={"value": "v"})
        return answer.status_code == 507 and answer.json()["code"] == ErrorCode.DISK_LOW

    wait_until(lambda: all(map(is_full, nodes)), "all disks are low")
    wait_until(refused, "appends are refused")
    assert quorum.get("before") == "1"
    for node in nodes:
        disk_of(node, disks).free()
    wait_until(lambda: not refused(), "appends are taken again")
    quorum.put("after", "2")
    for node in nodes:
        assert node.is_running
        assert not (node.root / "failed").exists()


def test_full_follower_exits_and_returns_with_its_data(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=48, kind="ext4")
    quorum.put("before", "1")
    node = quorum.followers[0]
    disk = disk_of(node, disks)
    disk.fill()
    for number in range(340):
        quorum.put(f"big{number}", "x" * 30_000)
        if not node.is_running:
            break
    assert node.wait_exit() == ExitCode.DISK_FULL, node.log_text
    assert json.loads(node.termination_message)["reason"] == "DiskFull"
    assert not (node.root / "failed").exists()
    uuid = json.loads(node.termination_message)["replicaUuid"]
    disk.free()
    node.start()
    quorum.wait_caught_up(node.id)
    assert quorum.local(node.id)["replicaUuid"] == uuid
    end_offset = quorum.put("after", "2")["endOffset"]
    wait_until(lambda: quorum.local(node.id)["highWatermark"] >= end_offset, "all is there")
    wait_same_log(quorum, node)


@pytest.mark.long
def test_disk_full_before_a_snapshot_is_written_fails_only_the_snapshot(
    make_quorum, disks: list[LoopDisk], tmp_path: Path
) -> None:
    quorum = quorum_on_disks(make_quorum, disks, tmp_path, size_mib=48, kind="ext4")
    for number in range(400):
        quorum.put(f"k{number}", f"{number} " * 8_000)
    node = quorum.followers[0]
    disk = disk_of(node, disks)
    disk.fill(leave_bytes=6 * MIB)
    url = f"{node.admin_url}/v1/snapshot"

    def refused() -> dict[str, str] | None:
        answer = quorum.client.post(url, timeout=60)
        return None if answer.is_success else dict(answer.json())

    refusal = wait_until(refused, "the snapshot does not fit")
    assert refusal["code"] == ErrorCode.SNAPSHOT_REFUSED
    assert "ENOSPC" in refusal["message"] or "more space" in refusal["message"]
    assert list(node.data_dir.glob("*/*.checkpoint*")) == []
    end_offset = quorum.put("after", "1")["endOffset"]
    wait_until(lambda: quorum.local(node.id)["highWatermark"] >= end_offset, "it follows")
    disk.free()
    wait_until(lambda: refused() is None, "there is room for a snapshot")
    assert quorum.local(node.id)["latestSnapshot"]["endOffset"] >= end_offset
    assert node.is_running
    assert not (node.root / "failed").exists()
