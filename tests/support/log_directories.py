"""Brokers with two log directories each, of which some are on disks that can be made to fail. Needs root and loop devices.

The directories are described over the wire. The tests check the results.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from support.founded_level import found_at_level
from support.local_quorum import LocalNode, LocalQuorum
from support.loop_disk import LoopDisk
from support.python_brokers import FIRST_BROKER_ID, PythonBrokers

DISK_MIB = 320


class TwoDirectories(PythonBrokers):
    """Every broker has `log.dirs` a and b. `others`: properties for other controllers than those of the quorum."""

    others: Mapping[str, str] = MappingProxyType({})

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `PythonBrokers`."""
        return {"log.dirs": ",".join(str(self.path(node, name)) for name in "ab"), **self.others}

    def path(self, node: LocalNode, name: str) -> Path:
        """One of the directories."""
        return node.root / f"disk-{name}" / "mnt" / "logs"

    def directory(self, broker_id: int, name: str) -> Path:
        """The same by id."""
        return self.path(self.nodes[broker_id], name)

    def described(self, broker_id: int) -> dict[str, DescribeLogDirsResult]:
        """The answers to DescribeLogDirs, by the name of the directory."""
        answer = self.ask(broker_id, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        assert isinstance(answer, DescribeLogDirsResponse)
        return {
            name: each
            for each in answer.results
            for name in "ab"
            if each.log_dir == str(self.directory(broker_id, name))
        }

    def partitions_in(self, broker_id: int, name: str, topic: str) -> set[int]:
        """The partitions of a topic in one directory."""
        found = self.described(broker_id)[name]
        return {
            each.partition_index
            for described in found.topics
            if described.name == topic
            for each in described.partitions
            if not each.is_future_key
        }

    def alter(self, broker_id: int, path: str, topic: str, *partitions: int) -> list[int]:
        """Ask for a move of these replicas; the error codes."""
        topics = (AlterReplicaLogDirTopic(name=topic, partitions=partitions),)
        body = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))
        answer = self.ask(broker_id, ALTER_REPLICA_LOG_DIRS, body)
        assert isinstance(answer, AlterReplicaLogDirsResponse)
        return [each.error_code for result in answer.results for each in result.partitions]


@contextmanager
def brokers_with_disks(
    root: Path, brokers: int, failing: str, level: int | None = None, **properties: str
) -> Iterator[tuple[TwoDirectories, dict[str, LoopDisk]]]:
    """Brokers on a controller of their own. `failing`: directories of broker 201 that are on a loop disk, by name; not started.

    `level`: of metadata.version, by default the newest.
    """
    with (
        LocalQuorum(root / "quorum", nodes=1) as quorum,
        TwoDirectories(quorum, root / "brokers", brokers, FIRST_BROKER_ID, **properties) as made,
    ):
        disks: dict[str, LoopDisk] = {}
        try:
            for name in failing:
                disks[name] = LoopDisk(made.nodes[201].root / f"disk-{name}", DISK_MIB)
            if level is not None:
                found_at_level(quorum.nodes[1], level)
            quorum.form()
            yield made, disks
        finally:
            for node in made.nodes.values():
                if node.is_running:
                    node.kill()
            for disk in disks.values():
                disk.close()
