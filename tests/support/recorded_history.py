"""A cluster with a history: three voters of ours, three stock brokers, an archive that follows; topics, failures, repairs, reassignments.

Owns the order of events, and their times by the clock of the caller. tests/pipeline checks what is found of them later.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from quorum_pipeline.archive.layout import MARKER, RECORDS, parse_directory, tiles
from support.java_brokers import JavaBrokers
from support.java_reassignment import ReassignmentTool
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.pipeline_process import PipelineProcess

FAST = 100_000_000
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Span:
    """An event happened between these two times of this machine's clock."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """A voter whose disk was lost, and the replica that took its place."""

    id: int
    old_uuid: str
    new_uuid: str
    lost: LocalNode


class RecordedHistory:
    """Events one after the other; each method leaves a working cluster."""

    def __init__(self, root: Path, quorum: LocalQuorum, brokers: JavaBrokers) -> None:
        self._root = root
        self._quorum = quorum
        self._brokers = brokers
        self.archive = root / "archive"

    def begin(self) -> None:
        """Topics with data in them, and configs."""
        self._brokers.start()
        self._brokers.wait_for([101, 102, 103], PATIENCE_SECONDS)
        clients = self._brokers.clients
        clients("create moving 6 2")
        clients("create kept 4 2 retention.ms=7200000")
        clients("create gone 2 1")
        clients("fill moving 300 1000")
        clients("config kept retention.ms 3600000")
        clients("delete gone")

    def follow(self) -> PipelineProcess:
        """Start the archive's process: it continues where it ended, until it is stopped."""
        servers = ",".join(f"127.0.0.1:{node.port}" for node in self._quorum.nodes.values())
        options = ["--bootstrap", servers, "--to", self.archive, "--follow", "--every", "2"]
        return PipelineProcess(self._root / "archive.log", "archive", *options)

    def wait_archived(self, process: PipelineProcess) -> int:
        """Until what is committed now is in the archive; its end."""
        wanted = int(self._quorum.describe()["highWatermark"])

        def found() -> int | None:
            assert process.is_running, process.output
            end = archived_end(self.archive)
            return end if end >= wanted else None

        return wait_until(found, f"offset {wanted} is archived", PATIENCE_SECONDS)

    def crash_leader(self) -> Span:
        """kill -9, directly after a write; it is restarted when another node leads. Returns when that was."""
        dead = self._quorum.leader
        before = now_ms()
        self._quorum.put("flush.ms", "50000", topic="kept")
        dead.kill()
        span = Span(before, now_ms())
        self._brokers.clients("create after-the-failover 2 2")
        dead.start()
        self._quorum.wait_caught_up(dead.id)
        return span

    def crash_broker(self, broker_id: int) -> Span:
        """kill -9; it is restarted when it has been fenced. Returns when it was killed."""
        before = now_ms()
        self._brokers.brokers[broker_id].kill()
        span = Span(before, now_ms())
        others = sorted(set(self._brokers.brokers) - {broker_id})
        self._brokers.wait_for(others, PATIENCE_SECONDS)
        self._brokers.brokers[broker_id].start()
        self._brokers.wait_for(self._brokers.brokers, PATIENCE_SECONDS)
        self._wait_in_sync()
        return span

    def disk_is_replaced(self) -> Replacement:
        """A follower loses its disk: the same id, an empty directory, a new replica UUID; the old one is removed.

        Not the founder, node 1: with an empty disk its configuration makes it refuse to start.
        """
        lost = self._quorum.followers[-1]
        old_uuid = self._quorum.local(lost.id)["replicaUuid"]
        lost.kill()
        self._quorum.add_node(lost.id).start()
        self._quorum.wait_caught_up(lost.id)
        new_uuid = self._quorum.local(lost.id)["replicaUuid"]
        self._quorum.add_voter(lost.id, countNewcomer=True)
        # While both are voters. Of a name that it knows; stock Kafka 4.3 leaves other configs out of its images.
        self._quorum.put("flush.ms", "60000", topic="kept")
        self._quorum.remove_voter(lost.id, old_uuid)
        return Replacement(lost.id, old_uuid, new_uuid, lost)

    def partitions_move(self) -> dict[int, tuple[int, ...]]:
        """The stock tool moves a topic; where to."""
        clients, every = self._brokers.clients, set(self._brokers.brokers)
        target = {
            partition_id: tuple(sorted(every - {state.replicas[0]}))
            for partition_id, state in clients.partitions("moving").items()
        }
        tool = self.tool()
        tool.execute("moving", target, throttle=FAST)
        self.wait_moved()
        tool.verify_complete("moving", target)
        return target

    def tool(self) -> ReassignmentTool:
        """The stock tool, on these brokers."""
        return ReassignmentTool(self._brokers.bootstrap, self._root)

    def wait_moved(self) -> None:
        """Until no partition is on its way."""
        clients = self._brokers.clients
        wait_until(lambda: clients("reassignments") == "0", "all have moved", PATIENCE_SECONDS)

    def _wait_in_sync(self) -> None:
        clients = self._brokers.clients
        for topic in ("moving", "kept"):
            wait_until(partial(clients.in_sync, topic), f"{topic} in sync", PATIENCE_SECONDS)


def archived_end(archive: Path) -> int:
    """The offset after the last archived one; 0 if there is none."""
    records = archive / RECORDS
    names = [path.name for path in records.iterdir()] if records.is_dir() else []
    ranges = [found for name in names if (found := parse_directory(name)) is not None]
    whole = [each for each in ranges if (records / each.directory / MARKER).exists()]
    counting, _ = tiles(whole)
    return counting[-1].end if counting else 0


def now_ms() -> int:
    """The clock by which logs of this machine are stamped."""
    return time.time_ns() // 1_000_000
