"""Founds a quorum at an older level of metadata.version, before its first voter is started."""

import asyncio
from pathlib import Path

from quorum_node.configuration.node_config import check_config
from quorum_node.records.metadata import METADATA_VERSION, FeatureLevelRecord, encode_metadata
from quorum_node.server.ending.termination import Termination
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.node_events import MalformedBytes
from quorum_node.server.partition.port import AppendOutcome, Committed
from quorum_node.server.process.hosted_partitions import HostedPartitions
from quorum_node.server.starting.startup import open_replica
from quorum_node.storage.disk_reserve import DiskReserve
from support.hosted_process import RecordingProcess
from support.local_quorum import LocalNode


def found_at_level(node: LocalNode, level: int) -> None:
    """The first voter's log, as a cluster of an older level has it: the level is its first record."""
    text = (node.root / "node.properties").read_text()
    pairs = dict(line.split("=", 1) for line in text.splitlines())

    async def write() -> None:
        config = check_config(pairs)
        directory = open_replica(config, Termination())
        reserve = DiskReserve(Path(pairs["metadata.log.dir"]), 0)
        hosted = HostedPartitions(
            config, directory, Metrics(), MalformedBytes(), reserve, RecordingProcess()
        )
        hosted.start()
        record = FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
        outcome: AppendOutcome | None = None
        for _ in range(1000):  # refused until its own voters record is committed
            done: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
            hosted.first.append((encode_metadata(record),), done.set_result)
            outcome = await asyncio.wait_for(done, 10)
            if isinstance(outcome, Committed):
                break
            await asyncio.sleep(0.01)
        assert isinstance(outcome, Committed), outcome
        hosted.close()
        for partition in directory.partitions:
            partition.log.close()

    asyncio.run(write())
