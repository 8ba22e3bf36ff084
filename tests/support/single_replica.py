"""One replica in this process, with its real log and disk; it can be started again and again in one directory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from quorum_node.configuration.node_config import check_config
from quorum_node.image.resource_types import TOPIC
from quorum_node.records.metadata import encode_metadata
from quorum_node.server.ending.termination import Termination
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.node_events import MalformedBytes
from quorum_node.server.partition.port import AppendOutcome, Committed
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.process.hosted_partitions import HostedPartitions
from quorum_node.server.snapshots.port import Outcome
from quorum_node.server.starting.startup import open_replica
from quorum_node.storage.disk_reserve import DiskReserve
from support.hosted_process import RecordingProcess
from support.metadata_records import config

UUID_TEXT = "AAAAAAAAAAAAAAAAAAAABQ"
PARTITION = "__cluster_metadata-0"


class Running:
    """A quorum of one, started in this loop."""

    def __init__(self, path: Path, **settings: object) -> None:
        pairs = {
            "node.id": "1",
            "cluster.id": "c",
            "admin.listener": "http://127.0.0.1:8080",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "metadata.log.dir": str(path),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "formation.founder.id": "1",
            "formation.founder.uuid": UUID_TEXT,
            "metadata.log.segment.bytes": str(1 << 14),
            "metadata.log.reserve.bytes": "0",
            **{key.replace("_", "."): str(value) for key, value in settings.items()},
        }
        self.path = path
        config = check_config(pairs)
        self.directory = open_replica(config, Termination())
        self.metrics = Metrics()
        self.reserve = DiskReserve(path, 0)
        self.reserve.measure()
        process = RecordingProcess()
        self.hosted = HostedPartitions(
            config, self.directory, self.metrics, MalformedBytes(), self.reserve, process
        )
        self.halts = process.halts
        self.hosted.start()
        self.number = 0

    @property
    def host(self) -> ReplicaHost:
        return self.hosted.first

    async def write(self, count: int, size: int = 100) -> Committed:
        """Appends of one record each; returns the last."""
        outcome: AppendOutcome | None = None
        await until(
            lambda: self.host.describe().own_epoch_committed and self.host.describe().formed
        )
        for _ in range(count):
            future: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
            record = config(TOPIC, "t", f"k{self.number % 50}", f"{self.number}" + "x" * size)
            self.number += 1
            self.host.append((encode_metadata(record),), future.set_result)
            outcome = await asyncio.wait_for(future, 20)
        assert isinstance(outcome, Committed)
        return outcome

    async def snapshot(self) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.host.snapshotter.request(future.set_result)
        return await asyncio.wait_for(future, 20)

    def values(self) -> dict[str, str]:
        return dict(self.host.applier.image.configs.of(TOPIC, "t"))

    def counted(self, name: str) -> int:
        return int(self.metrics.partition(0).counters[name])

    def close(self) -> None:
        self.hosted.close()
        for partition in self.directory.partitions:
            partition.log.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of another thread, or of the disk
            await asyncio.sleep(0.005)


@asynccontextmanager
async def starts(folder: Path) -> AsyncIterator[Callable[..., Running]]:
    """As many starts of the same replica as a test wants, one at a time."""
    opened: list[Running] = []

    def close() -> None:
        for running in opened:
            running.close()
        opened.clear()

    def start(**settings: object) -> Running:
        close()
        opened.append(Running(folder / "data", **settings))
        return opened[0]

    try:
        yield start
    finally:
        close()
