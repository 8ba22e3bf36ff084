"""Two real replicas in one loop, on one disk: what they share, and what they don't."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quorum_node.api import ErrorCode
from quorum_node.raft.outputs import Halt, HaltReason
from quorum_node.server.observing.node_events import ReplicaEvents
from quorum_node.server.partition.port import Committed
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.process import hosted_partitions
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure
from support.hosted_node import NODE_ID, running_node


@pytest.mark.requirement("K595-31")
@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (StorageFailure("EIO"), HaltReason.STORAGE_FAILED),
        (DiskFull("ENOSPC"), HaltReason.DISK_FULL),
        (OutOfResources("EMFILE"), HaltReason.OUT_OF_RESOURCES),
    ],
)
async def test_failed_disk_stops_all_partitions_and_is_reported_once(
    tmp_path: Path, fails: int, failure: StorageFailure | DiskFull, reason: HaltReason
) -> None:
    async with running_node(tmp_path) as node:
        node.hosted.hosts[fails].fail_storage(failure)
        await asyncio.wait_for(node.has_halted.wait(), 10)
        for number in range(2):
            assert not isinstance(await node.append(number, "late", "x"), Committed)
        reasons = [host.halt.reason for host in node.hosted.hosts if host.halt]
        assert reasons == [reason, reason]
        assert [halt.reason for halt in node.halts] == [reason]
        assert str(failure) in node.halts[0].detail
        other = node.hosted.hosts[1 - fails].halt
        assert other is not None
        assert f"partition {fails} stopped the process" in other.detail


async def test_failed_log_of_one_partition_stops_the_other() -> None:
    with TemporaryDirectory() as directory:
        async with running_node(Path(directory)) as node:
            node.hosted.hosts[1].driver.flush_failed(StorageFailure("EIO"))
            assert [host.halt is None for host in node.hosted.hosts] == [False, False]


async def test_process_is_notified_of_the_failure_before_it_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(events: ReplicaEvents, halt: Halt) -> None:
        raise OSError("stdout is closed")

    monkeypatch.setattr(ReplicaEvents, "halted", closed)
    async with running_node(tmp_path) as node:
        with pytest.raises(OSError, match="stdout is closed"):
            node.hosted.hosts[0].fail_storage(StorageFailure("EIO"))
        assert node.has_halted.is_set() or node.hosted.hosts[1].halt is not None
        assert all(host.halt is not None for host in node.hosted.hosts)


async def test_voter_connections_are_maintained_while_the_node_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_partitions, "WARM_AGAIN_SECONDS", 0.01)
    looked_at: list[int] = []
    enough = asyncio.Event()

    def warm(host: ReplicaHost) -> None:
        looked_at.append(host.partition)
        if looked_at.count(1) >= 5:
            enough.set()

    async with running_node(tmp_path) as node:
        looked_at.clear()
        monkeypatch.setattr(ReplicaHost, "warm_peers", warm)
        await asyncio.wait_for(enough.wait(), 10)
        assert set(looked_at) == {0, 1}
        node.hosted.close()
        looked_at.clear()
        await asyncio.sleep(0.05)
        assert not looked_at


async def test_shutdown_completes_when_all_partitions_have_transferred_leadership(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        node.hosted.hosts[0].request_shutdown()
        await asyncio.sleep(0)
        assert not node.has_halted.is_set(), "the other partition still serves"
        assert isinstance(await node.append(1, "still", "x"), Committed)
        node.hosted.request_shutdown()
        await asyncio.wait_for(node.has_halted.wait(), 10)
        assert [halt.reason for halt in node.halts] == [HaltReason.SHUTDOWN]


@pytest.mark.requirement("K595-31")
async def test_admin_api_has_a_state_per_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        uuids = []
        for number in range(2):
            where = {"partition": number}
            document = (await client.get("/v1/node", params=where)).json()
            assert (document["partition"], document["partitions"]) == (number, 2)
            uuids.append(document["replicaUuid"])
            quorum = (await client.get("/v1/quorum", params={**where, "confirmed": "true"})).json()
            assert (quorum["confirmed"], quorum["partition"]) == (True, number)
            assert [voter["uuid"] for voter in quorum["voters"]] == uuids[-1:]
            value = await client.get("/v1/configs/topic/t/first", params=where)
            assert value.json()["value"] == str(number)
            records = (await client.get("/v1/log", params=where)).json()["records"]
            assert str(number) in {record["fields"].get("value") for record in records}
        assert len(set(uuids)) == 2
        assert (await client.get("/v1/node")).json()["replicaUuid"] == uuids[0]
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert "partition" in ready.json()["reason"]


@pytest.mark.parametrize("partition", ["2", "-1"])
async def test_missing_partition_is_named(tmp_path: Path, partition: str) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        for path in ("/v1/node", "/v1/quorum", "/v1/log", "/v1/voter-history", "/v1/configs"):
            answer = await client.get(path, params={"partition": partition})
            assert (answer.status_code, answer.json()["code"]) == (404, ErrorCode.NOT_FOUND)
            assert f"partition {partition} does not exist" in answer.json()["message"]


async def test_metrics_have_a_partition_label(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        async with node.client() as client:
            text = (await client.get("/metrics")).text
        for number in range(2):
            assert f'metadata_quorum_leader_id{{partition="{number}"}} {NODE_ID}.0' in text
