"""The scrub of a running replica: rounds without end, at a bounded rate, and what each kind of damage leads to."""

import asyncio
import time
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import encode_values
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.disk import scrubber as scrubber_module
from quorum_node.server.disk.scrubber import Scrubber
from quorum_node.server.observing.metrics import Metrics
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.scrub import Pause

pytestmark = [pytest.mark.requirement("K595-02")]


class Env:
    """The files of one replica, and the reports about them."""

    def __init__(self, directory: Path, rate: int) -> None:
        self.log = SegmentedLog(directory)
        self.append(4)
        self.state_file = QuorumStateFile(directory, UUID(int=7))
        self.state_file.save(QuorumState(leader_epoch=3))
        self.failures: list[StorageFailure | DiskFull] = []
        self.snapshots: list[SnapshotId] = []
        self.looked_at: list[SnapshotId] = []
        self.metrics = Metrics()
        self.scrubber = Scrubber(
            self.log,
            self.state_file,
            lambda: tuple(self.snapshots),
            self._snapshot,
            self.failures.append,
            self.metrics.partition(0),
            bytes_per_second=rate,
        )

    def append(self, count: int, size_bytes: int = 30) -> None:
        for _ in range(count):
            base = self.log.end_offset
            data = encode_values(
                base_offset=base, leader_epoch=1, timestamp_ms=1, values=[b"v" * size_bytes]
            )
            self.log.append(data, base, base + 1, 1)
        self.log.flush()

    def _snapshot(self, id: SnapshotId, pause: Pause) -> None:
        self.looked_at.append(id)
        pause(10)

    def count(self, name: str) -> float:
        for line in self.metrics.render().decode().splitlines():
            if line.startswith(f"metadata_quorum_{name}_total"):
                return float(line.rpartition(" ")[2])
        raise AssertionError(name)


async def until(env: Env, what: str, check: object) -> None:
    deadline = time.monotonic() + 20
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber_module, "_ROUND_SECONDS", 0.01)


def test_damage_in_any_round_stops_the_replica(tmp_path: Path) -> None:
    async def run(spoiled: str) -> None:
        env = Env(tmp_path / spoiled, 1 << 30)
        env.snapshots = [SnapshotId(2, 1)]
        env.scrubber.start()
        await until(env, "three rounds", lambda: env.count("scrub_rounds") >= 3)
        assert env.failures == []
        assert len(env.looked_at) >= 3
        env.append(3)  # later segments are scrubbed, too
        path = next((tmp_path / spoiled).glob(spoiled))
        changed = bytearray(path.read_bytes())
        changed[-12] ^= 2
        path.write_bytes(changed)
        await until(env, "the damage", lambda: bool(env.failures))
        assert path.name in str(env.failures[0])
        assert isinstance(env.failures[0], StorageFailure)
        env.scrubber.close()

    for spoiled in ("*.log", "quorum-state"):
        asyncio.run(run(spoiled))


async def test_scrub_rate_is_limited_after_the_first_round(tmp_path: Path) -> None:
    rate = 20_000
    env = Env(tmp_path, rate)
    env.append(4, 1_000)
    env.scrubber.start()
    await until(env, "the first round", lambda: env.count("scrub_rounds") >= 1)
    began, before = time.monotonic(), env.count("scrubbed_bytes")
    await until(env, "three more", lambda: env.count("scrub_rounds") >= 4)
    read = env.count("scrubbed_bytes") - before  # first: the thread goes on
    seconds = time.monotonic() - began
    assert read > 2 * 4_000
    assert read / seconds < rate * 1.5
    env.scrubber.close()
