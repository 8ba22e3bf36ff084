"""`cordoned.log.dirs` (KIP-1066): directories that get no new replicas, and what tells others about them."""

import asyncio
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.image.resource_types import BROKER
from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from quorum_node.protocol.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import METADATA_VERSION, ConfigRecord, FeatureLevelRecord
from quorum_node.records.metadata.metadata_version import CORDONED_DIRECTORIES_LEVEL
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.lifecycle import (
    BrokerState,
    Lifecycle,
    LifecycleCallbacks,
    registration,
)
from quorum_node.server.broker.log_dirs_api import LogDirsApi
from support.hosted_replicas import ME, HostedReplicas, SilentController, answered

pytestmark = pytest.mark.virtual_time

KEY = "cordoned.log.dirs"
A, B = UUID(int=1 << 80), UUID(int=1 << 81)


class TwoDirectories:
    """A broker with directories a and b; `static`: value in the configuration file."""

    def __init__(self, root: Path, static: str | None = None) -> None:
        self.root = root
        self.hosted = HostedReplicas(
            root / "a", second=root / "b", static={} if static is None else {KEY: static}
        )
        self.a, self.b = self.hosted.register_directories()
        self.api = LogDirsApi(self.hosted.replicas, self.hosted.directories)

    def configure(self, value: str | None, name: str = str(ME)) -> None:
        record = ConfigRecord(resource_type=BROKER, resource_name=name, name=KEY, value=value)
        self.hosted.cluster.replay([record])
        self.hosted.replicas.apply(self.hosted.cluster.image)

    @property
    def cordoned(self) -> tuple[UUID, ...]:
        return self.hosted.replicas.cordoned_ids(self.hosted.cluster.image)

    def described(self) -> dict[str, bool]:
        answer = answered(self.api.describe, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        return {Path(each.log_dir).name: each.is_cordoned for each in answer.results}

    def move(self, folder: str) -> ErrorCode:
        topics = (AlterReplicaLogDirTopic(name="t", partitions=(0,)),)
        wanted = (AlterReplicaLogDir(path=str(self.root / folder), topics=topics),)
        answer = answered(
            self.api.alter, ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest(dirs=wanted)
        )
        return ErrorCode(answer.results[0].partitions[0].error_code)


async def test_dynamic_config_of_this_broker_precedes_the_configuration_file(
    tmp_path: Path,
) -> None:
    made = TwoDirectories(tmp_path, f"{tmp_path}/b/")
    assert made.cordoned == (made.b,)
    made.configure(str(tmp_path / "a"))
    assert made.cordoned == (made.a,)
    made.configure("*")
    assert made.cordoned == (made.a, made.b)
    made.configure(f"{tmp_path}/a, {tmp_path}/unknown")
    assert made.cordoned == (made.a,)
    made.configure("")
    assert made.cordoned == ()
    made.configure(None)
    made.configure("*", name="")
    assert made.cordoned == (made.b,), "configs of all brokers do not count"
    made.hosted.close()


async def test_new_replicas_avoid_a_cordoned_directory(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path, str(tmp_path / "b"))
    first, second = made.hosted.create("t"), made.hosted.create("u")
    assert (first.directory_id, second.directory_id) == (made.a, made.a)
    made.configure("")
    assert made.hosted.create("v").directory_id == made.b
    made.hosted.replicas.prefer("w", 0, made.a)
    made.configure(str(tmp_path / "a"))
    assert made.hosted.create("w").directory_id == made.b, "it was cordoned after the request"
    made.configure("*")
    counts = Counter(each.directory_id for each in made.hosted.replicas)
    assert counts == {made.a: 2, made.b: 2}
    await asyncio.sleep(0)  # a turn of the loop creates few logs
    assert made.hosted.create("x").directory_id == made.a, "there is no other"
    made.hosted.close()


async def test_replicas_are_not_moved_to_a_cordoned_directory(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path, str(tmp_path / "b"))
    assert made.move("b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "before it is created"
    replica = made.hosted.create("t")
    assert made.move("b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert not list(made.hosted.replicas.moves)
    made.configure(str(tmp_path / "a"))
    assert replica.directory_id == made.a, "it stays"
    assert made.move("b") == ErrorCode.NONE
    made.hosted.close()


async def test_cordoned_directories_are_described(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path, str(tmp_path / "b"))
    assert made.described() == {"a": False, "b": True}
    level = CORDONED_DIRECTORIES_LEVEL - 1
    made.hosted.cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)])
    made.hosted.replicas.apply(made.hosted.cluster.image)
    assert made.described() == {"a": False, "b": False}, "as long as the cluster has none"
    made.hosted.close()


class Beating:
    """A lifecycle, its heartbeats, and the directories that are cordoned."""

    def __init__(self) -> None:
        self.controller = SilentController()
        self.applied_offset = 4
        self.cordoned: tuple[UUID, ...] | None = (B,)
        self.lifecycle = Lifecycle(
            registration(ME, None, (), (A, B), -1),
            self.controller,  # type: ignore[arg-type]
            BrokerEvents(),
            BrokerState(lambda: self.applied_offset, cordoned_ids=lambda: self.cordoned),
            LifecycleCallbacks(),
            interval_ms=2_000,
        )
        self.lifecycle.start("c")
        _, answered = self.controller.asked.pop()
        answered(BrokerRegistrationResponse(error_code=0, broker_epoch=5))

    def beat(self, *, fenced: bool = False) -> tuple[UUID | None, ...] | None:
        """Answer the heartbeat that is in flight; what it says about cordoned directories."""
        body, answered = self.controller.asked.pop()
        assert isinstance(body, BrokerHeartbeatRequest)
        assert not self.controller.asked
        answered(BrokerHeartbeatResponse(error_code=0, is_caught_up=True, is_fenced=fenced))
        return body.cordoned_log_dirs


async def test_cordoned_directories_are_reported_once_the_metadata_is_known() -> None:
    made = Beating()
    assert made.beat(fenced=True) is None
    made.applied_offset = 5
    made.lifecycle.image_applied()
    assert made.beat() == (B,)
    await asyncio.sleep(2.1)
    assert made.beat() == (B,), "another controller has to learn it too"


async def test_change_is_reported_at_once() -> None:
    made = Beating()
    made.applied_offset = 5
    made.beat(fenced=True)
    made.lifecycle.image_applied()
    assert made.beat() == (B,)
    made.lifecycle.image_applied()
    assert not made.controller.asked, "nothing has changed"
    made.cordoned = ()
    made.lifecycle.image_applied()
    assert made.beat() == ()
    made.cordoned = None
    made.lifecycle.image_applied()
    assert made.beat() is None
