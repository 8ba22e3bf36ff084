"""Two real replicas in one loop, on one disk: what they share, and what they don't."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import httpx
import pytest

from quorum_node.api import ErrorCode
from quorum_node.raft.outputs import Halt, HaltReason
from quorum_node.records.identity import uuid_text
from quorum_node.records.metadata import encode_metadata
from quorum_node.server.admin.app import create_app
from quorum_node.server.admin.forwarding import Forwarder
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.appends import AppendOutcome, Committed
from quorum_node.server.config import NodeConfig, check_config
from quorum_node.server.hosted_partitions import HostedPartitions
from quorum_node.server.metrics import Metrics
from quorum_node.server.node_events import MalformedBytes
from quorum_node.server.replica_building import own_endpoints
from quorum_node.storage.directory import OpenDirectory, format_directory, open_directory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties
from support.metadata_records import config

ME = UUID(int=9)


class Node:
    """A founder that leads both of its partitions."""

    def __init__(self, directory: Path) -> None:
        self.config = config_of(directory)
        self.directory = opened(directory)
        self.metrics = Metrics()
        self.reserve = DiskReserve(directory, 0)
        self.hosted = HostedPartitions(
            self.config, self.directory, self.metrics, MalformedBytes(), self.reserve
        )
        self.halts: list[Halt] = []
        self.halted = asyncio.Event()
        self.hosted.on_halt = self._on_halt

    def _on_halt(self, halt: Halt) -> None:
        self.halts.append(halt)
        self.halted.set()

    async def start(self) -> None:
        """Until both partitions take writes."""
        self.hosted.start()
        for number in range(2):
            for _ in range(1000):  # refused until the founder's own voters record is committed
                outcome = await self.append(number, "first", str(number))
                if isinstance(outcome, Committed):
                    break
                await asyncio.sleep(0.01)
            assert isinstance(outcome, Committed), outcome

    async def append(self, number: int, name: str, value: str) -> AppendOutcome:
        done: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
        record = encode_metadata(config(2, "t", name, value))
        self.hosted.hosts[number].appends.submit((record,), done.set_result)
        return await asyncio.wait_for(done, 10)

    def close(self) -> None:
        self.hosted.close()
        for partition in self.directory.partitions:
            partition.log.close()

    def client(self) -> httpx.AsyncClient:
        """The admin API of this node."""
        view = NodeView(
            hosted=self.hosted,
            metrics=self.metrics,
            reserve=self.reserve,
            forwarder=Forwarder(),
            token=None,
            fetch_timeout_ms=2000,
            started_at=datetime.now(UTC),
            endpoints=own_endpoints(self.config),
        )
        transport = httpx.ASGITransport(create_app(view))
        return httpx.AsyncClient(transport=transport, base_url="http://node")


def config_of(directory: Path) -> NodeConfig:
    return check_config(
        {
            "node.id": "1",
            "advertised.listeners": "CONTROLLER://127.0.0.1:9093",
            "admin.advertised.listener": "http://127.0.0.1:8080",
            "metadata.log.dir": str(directory),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "formation.founder.id": "1",
            "formation.founder.uuid": uuid_text(ME),
            "quorum.partitions": "2",
        }
    )


def opened(directory: Path) -> OpenDirectory:
    format_directory(directory, MetaProperties(1, ME, "c", 2))
    return open_directory(
        directory,
        node_id=1,
        cluster_id="c",
        segment_bytes=1 << 20,
        latch=FailureLatch(None),
        partitions=2,
    )


def with_node(directory: Path, scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def run() -> None:
        node = Node(directory)
        await node.start()
        try:
            await scenario(node)
        finally:
            node.close()

    asyncio.run(run())


@pytest.mark.requirement("K595-31")
@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (StorageFailure("EIO"), HaltReason.STORAGE_FAILED),
        (DiskFull("ENOSPC"), HaltReason.DISK_FULL),
    ],
)
def test_a_failed_disk_stops_all_partitions_and_is_told_once(
    tmp_path: Path, fails: int, failure: StorageFailure | DiskFull, reason: HaltReason
) -> None:
    async def scenario(node: Node) -> None:
        node.hosted.hosts[fails].fail_storage(failure)
        await asyncio.wait_for(node.halted.wait(), 10)
        for number in range(2):
            assert not isinstance(await node.append(number, "late", "x"), Committed)
        reasons = [host.halt.reason for host in node.hosted.hosts if host.halt]
        assert reasons == [reason, reason]
        assert [halt.reason for halt in node.halts] == [reason]
        assert str(failure) in node.halts[0].detail
        other = node.hosted.hosts[1 - fails].halt
        assert other is not None
        assert f"partition {fails} stopped the process" in other.detail

    with_node(tmp_path, scenario)


def test_a_failed_log_of_one_partition_stops_the_other() -> None:
    async def scenario(node: Node) -> None:
        node.hosted.hosts[1].driver.flush_failed(StorageFailure("EIO"))
        assert [host.halt is None for host in node.hosted.hosts] == [False, False]

    with TemporaryDirectory() as directory:
        with_node(Path(directory), scenario)


def test_a_stop_ends_when_all_partitions_have_handed_over(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.hosted.hosts[0].request_shutdown()
        await asyncio.sleep(0)
        assert not node.halted.is_set(), "the other partition still serves"
        assert isinstance(await node.append(1, "still", "x"), Committed)
        node.hosted.request_shutdown()
        await asyncio.wait_for(node.halted.wait(), 10)
        assert [halt.reason for halt in node.halts] == [HaltReason.SHUTDOWN]

    with_node(tmp_path, scenario)


@pytest.mark.requirement("K595-31")
def test_each_partition_has_its_own_state_on_the_admin_api(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        async with node.client() as client:
            uuids = []
            for number in range(2):
                where = {"partition": number}
                document = (await client.get("/v1/node", params=where)).json()
                assert (document["partition"], document["partitions"]) == (number, 2)
                uuids.append(document["replicaUuid"])
                quorum = (
                    await client.get("/v1/quorum", params={**where, "confirmed": "true"})
                ).json()
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

    with_node(tmp_path, scenario)


@pytest.mark.parametrize("partition", ["2", "-1"])
def test_a_partition_that_is_not_here_is_named(tmp_path: Path, partition: str) -> None:
    async def scenario(node: Node) -> None:
        async with node.client() as client:
            for path in ("/v1/node", "/v1/quorum", "/v1/log", "/v1/voter-history", "/v1/configs"):
                answer = await client.get(path, params={"partition": partition})
                assert (answer.status_code, answer.json()["code"]) == (404, ErrorCode.NOT_FOUND)
                assert f"partition {partition} is not here" in answer.json()["message"]

    with_node(tmp_path, scenario)


def test_metrics_name_the_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        async with node.client() as client:
            text = (await client.get("/metrics")).text
        for number in range(2):
            assert f'metadata_quorum_leader_id{{partition="{number}"}} 1.0' in text

    with_node(tmp_path, scenario)
