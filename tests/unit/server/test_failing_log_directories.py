"""A broker with two log directories in one process: what its replicas and requests see when one of them fails."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.leader import Leader
from quorum_node.broker.outputs import RefuseFetch
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
)
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.records.metadata import UNASSIGNED, PartitionChangeRecord
from quorum_node.schema.schema import Message
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.lifecycle import (
    BrokerState,
    Lifecycle,
    LifecycleCallbacks,
    registration,
)
from quorum_node.server.broker.topic_lookup import look_up
from quorum_node.storage.broker.failed_directories import FailedDirectories
from quorum_node.storage.errors import DiskFull, StorageFailure
from support.controlled_cluster import directory_of
from support.data_batches import data_batch
from support.failing_files import FailingFiles
from support.hosted_replicas import (
    ME,
    OTHER,
    HostedReplicas,
    SilentController,
    accepted,
    produce,
)

pytestmark = [pytest.mark.virtual_time, pytest.mark.requirement("KV3-07")]

A, B = UUID(int=1 << 80), UUID(int=1 << 81)


class Record:
    def __init__(self) -> None:
        self.failed_ids: list[UUID] = []

    def failed(self, directory: DataDirectory, failure: StorageFailure) -> None:
        self.failed_ids.append(directory.directory_id)


class TwoDirectories:
    """A broker with topics `in-a` and `in-b`, each with a follower on another broker."""

    def __init__(self, root: Path) -> None:
        self.files, self.record = FailingFiles(), Record()
        self.hosted = HostedReplicas(
            root / "a", second=root / "b", second_files=self.files, record=self.record
        )
        self.a, self.b = self.hosted.register_directories()
        self.in_a = self.hosted.create("in-a", (ME, OTHER))
        self.in_b = self.hosted.create("in-b", (ME, OTHER))
        assert (self.in_a.directory_id, self.in_b.directory_id) == (self.a, self.b)

    def waiting(self, replica: HostedReplica) -> list[BrokerError]:
        """The errors that a produce request with acks=all gets, which waits for the follower."""
        errors: list[BrokerError] = []
        replica.produce(data_batch(0), -1, 60_000.0, lambda error, offset: errors.append(error))
        return errors

    def code(self, name: str) -> ErrorCode | None:
        found = look_up(self.hosted.replicas, None, name, 0)
        return found if isinstance(found, ErrorCode) else None


def bytes_of() -> bytes:
    data = data_batch(0).data
    assert isinstance(data, bytes)
    return data


async def test_requests_of_a_failed_directory_are_answered_and_the_other_one_serves(
    tmp_path: Path,
) -> None:
    made = TwoDirectories(tmp_path)
    waits_in_a, waits_in_b = made.waiting(made.in_a), made.waiting(made.in_b)
    looked: list[bool] = []
    made.in_b.watch(lambda: looked.append(True))
    made.files.error = errno.EIO
    assert produce(made.in_b, bytes_of()) == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    assert waits_in_b == [BrokerError.KAFKA_STORAGE_ERROR]
    assert looked, "a fetch that waits is answered"
    answer = made.in_b.consumer_fetched(0, -1, -1, only_leader=False)
    assert isinstance(answer, RefuseFetch)
    assert answer.error is BrokerError.KAFKA_STORAGE_ERROR
    await asyncio.sleep(0)
    assert made.code("in-b") == ErrorCode.KAFKA_STORAGE_ERROR
    assert made.code("in-a") is None
    assert produce(made.in_a, bytes_of()) == (BrokerError.NONE, 1)
    assert not waits_in_a
    assert made.record.failed_ids == [made.b]
    assert made.hosted.directories.failed_ids == (made.b,)
    assert not made.hosted.failures, "the process goes on"
    made.files.error = None
    assert produce(made.in_b, bytes_of()) == (BrokerError.KAFKA_STORAGE_ERROR, -1), "never again"


async def test_replicas_of_a_failed_directory_are_not_created_elsewhere_and_new_ones_are(
    tmp_path: Path,
) -> None:
    made = TwoDirectories(tmp_path)
    made.files.error = errno.EIO
    made.hosted.directories.checkpoint()
    await asyncio.sleep(0)
    made.hosted.cluster.fence(OTHER)  # metadata changes while it is offline
    made.hosted.replicas.apply(made.hosted.cluster.image)
    assert made.code("in-b") == ErrorCode.KAFKA_STORAGE_ERROR
    assert made.hosted.create("new").directory_id == made.a
    made.hosted.delete("in-b")
    assert made.code("in-b") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert made.hosted.create("in-b").directory_id == made.a, "another topic of that name"


async def test_replica_that_is_assigned_again_is_created_in_another_directory(
    tmp_path: Path,
) -> None:
    made = TwoDirectories(tmp_path)
    made.files.error = errno.EIO
    produce(made.in_b, bytes_of())
    await asyncio.sleep(0)
    cluster, key = made.hosted.cluster, made.in_b.key
    elsewhere = cluster.partition("in-b").directories[1]
    for replicas, directories in (
        ((OTHER,), (elsewhere,)),
        ((OTHER, ME), (elsewhere, UNASSIGNED)),
    ):
        change = PartitionChangeRecord(
            partition_id=0,
            topic_id=key.topic_id,
            replicas=replicas,
            isr=(OTHER,),
            leader=OTHER,
            directories=directories,
        )
        cluster.replay([change])
        made.hosted.replicas.apply(cluster.image)
    made.hosted.threads.finish()
    assert made.hosted.replica("in-b").directory_id == made.a
    assert made.code("in-b") is None


async def test_leader_does_not_wait_for_a_follower_whose_directory_failed(tmp_path: Path) -> None:
    """It has caught up a moment ago, so it would count as about to join the ISR for replica.lag.time.max.ms."""
    hosted = HostedReplicas(tmp_path)
    leader = hosted.create("t", (ME, OTHER))
    cluster, now = hosted.cluster, leader.core.leader_epoch
    leader.follower_fetched(OTHER, cluster.epoch(OTHER), now, 0, -1, 0)
    errors: list[BrokerError] = []
    leader.produce(data_batch(0), -1, 60_000.0, lambda error, offset: errors.append(error))
    assert not errors
    cluster.replay([PartitionChangeRecord(partition_id=0, topic_id=leader.key.topic_id, isr=(ME,))])
    cluster.change(OTHER, log_dirs=(A,))
    hosted.replicas.apply(cluster.image)
    assert errors == [BrokerError.NONE]
    assert produce(leader, bytes_of(), acks=-1) == (BrokerError.NONE, 1)
    # Repaired, it counts again.
    cluster.change(OTHER, log_dirs=(A, directory_of(OTHER)))
    hosted.replicas.apply(cluster.image)
    leader.follower_fetched(OTHER, cluster.epoch(OTHER), now, 2, -1, 0)
    role = leader.core.role
    assert isinstance(role, Leader)
    assert OTHER in role.in_sync.maximal
    hosted.close()


async def test_full_disk_takes_its_directory_offline_until_the_next_start(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path)
    made.files.error = errno.ENOSPC
    assert produce(made.in_b, bytes_of()) == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    await asyncio.sleep(0)
    assert made.hosted.directories.failed_ids == (made.b,)
    assert not made.record.failed_ids, "its data is intact"
    assert produce(made.in_a, bytes_of()) == (BrokerError.NONE, 0)


class FullForLogs(FailingFiles):
    """Full from the moment on in which the first log is opened."""

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        if path.parent.name.startswith("in-b"):
            self.error = errno.ENOSPC
        return super().open(path, flags, mode)


async def test_directory_that_fails_at_the_first_log_of_a_start_takes_its_other_logs_offline(
    tmp_path: Path,
) -> None:
    made = TwoDirectories(tmp_path)
    cluster = made.hosted.cluster
    for name in ("in-a-too", "in-b-too"):
        made.hosted.create(name, (ME, OTHER))
    assert made.hosted.replica("in-b-too").directory_id == made.b
    assert produce(made.in_b, bytes_of()) == (BrokerError.NONE, 0)
    made.hosted.replicas.close()
    for each in made.hosted.opened:
        each.close(None)
    again = HostedReplicas(
        tmp_path / "a", cluster, second=tmp_path / "b", second_files=FullForLogs()
    )
    assert again.directories.failed_ids == (made.b,)
    for name, code in (
        ("in-a", None),
        ("in-a-too", None),
        ("in-b", ErrorCode.KAFKA_STORAGE_ERROR),
        ("in-b-too", ErrorCode.KAFKA_STORAGE_ERROR),
    ):
        found = look_up(again.replicas, None, name, 0)
        assert (found if isinstance(found, ErrorCode) else None) == code, name
    assert not again.failures


async def test_failed_maintenance_fails_only_its_directory(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path)
    assert produce(made.in_b, bytes_of()) == (BrokerError.NONE, 0)
    made.files.error = errno.EIO
    await asyncio.get_running_loop().run_in_executor(None, made.hosted.directories.maintain)
    await asyncio.sleep(0)
    assert made.code("in-b") == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(made.in_a, bytes_of()) == (BrokerError.NONE, 0)


async def test_full_disk_at_a_sync_ends_a_broker_with_one_directory_as_full(tmp_path: Path) -> None:
    """Not as failed: that would be latched, although the data is intact."""
    files = FailingFiles()
    hosted = HostedReplicas(tmp_path, files=files)
    assert produce(hosted.create("t"), bytes_of())
    files.error = errno.ENOSPC
    await asyncio.get_running_loop().run_in_executor(None, hosted.directories.maintain)
    await asyncio.sleep(0)
    assert [type(each) for each in hosted.failures] == [DiskFull]


async def test_process_ends_with_the_last_directory(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path)
    made.files.error = errno.EIO
    produce(made.in_b, bytes_of())
    await asyncio.sleep(0)
    made.hosted.opened[0].fail(StorageFailure("gone"))
    await asyncio.sleep(0)
    assert [str(each) for each in made.hosted.failures] == ["gone"]


def reports(controller: SilentController) -> list[set[UUID | None]]:
    return [
        {directory.id for directory in body.directories}
        for body, _ in controller.asked
        if isinstance(body, AssignReplicasToDirsRequest)
    ]


async def test_directories_of_replicas_are_reported_until_they_are_accepted(tmp_path: Path) -> None:
    made = TwoDirectories(tmp_path)
    controller = made.hosted.controller
    await asyncio.sleep(0.01)
    assert reports(controller) == [{made.a, made.b}]
    made.files.error = errno.EIO
    produce(made.in_b, bytes_of())
    request, answered = controller.asked[-1]
    answered(FailureReason.REFUSED)
    await asyncio.sleep(1)
    assert reports(controller) == [{made.a, made.b}] * 2, "also in the failed directory"
    request, answered = controller.asked[-1]
    answered(accepted(request, error=ErrorCode.UNKNOWN_TOPIC_ID))
    await asyncio.sleep(1)
    assert len(reports(controller)) == 3, "the controller may lag"
    request, answered = controller.asked[-1]
    answered(accepted(request))
    await asyncio.sleep(10)
    assert len(reports(controller)) == 3


class Reporting:
    """A lifecycle, and the requests that it sends."""

    def __init__(self) -> None:
        self.controller = SilentController()
        self.failed: list[UUID] = []
        self.unreported: list[bool] = []
        self.lifecycle = Lifecycle(
            registration(ME, None, (), (A, B), -1),
            self.controller,  # type: ignore[arg-type]
            BrokerEvents(),
            BrokerState(lambda: 100, failed_ids=lambda: tuple(self.failed)),
            LifecycleCallbacks(failure_unreported=lambda: self.unreported.append(True)),
            interval_ms=2_000,
            failure_timeout_ms=30_000,
        )

    @property
    def last(self) -> tuple[Message, Callable[[Message | FailureReason], None]]:
        return self.controller.asked[-1]

    def register(self) -> None:
        self.lifecycle.start("c")
        body, answered = self.last
        assert isinstance(body, BrokerRegistrationRequest)
        answered(BrokerRegistrationResponse(error_code=0, broker_epoch=5))

    def answer(self) -> BrokerHeartbeatRequest:
        """Answer the heartbeat that is in flight."""
        body, answered = self.last
        assert isinstance(body, BrokerHeartbeatRequest)
        answered(BrokerHeartbeatResponse(error_code=0, is_caught_up=True, is_fenced=False))
        return body

    def fail(self, directory_id: UUID) -> None:
        self.failed.append(directory_id)
        self.lifecycle.directory_failed()


async def test_failed_directory_is_reported_at_once_and_with_every_heartbeat() -> None:
    made = Reporting()
    made.register()
    assert made.answer().offline_log_dirs == ()
    made.fail(B)
    assert made.answer().offline_log_dirs == (B,)
    await asyncio.sleep(2)
    assert made.answer().offline_log_dirs == (B,), "a new controller has to learn it too"
    await asyncio.sleep(2)
    count = len(made.controller.asked)
    made.fail(A)  # while a heartbeat is in flight
    assert len(made.controller.asked) == count
    assert made.answer().offline_log_dirs == (B,)
    await asyncio.sleep(0.2)
    assert made.answer().offline_log_dirs == (B, A)
    await asyncio.sleep(60)
    assert not made.unreported


async def test_failure_that_cannot_be_reported_in_time_ends_the_broker() -> None:
    made = Reporting()
    made.register()
    made.answer()
    made.fail(B)
    await asyncio.sleep(29)
    assert not made.unreported
    await asyncio.sleep(2)
    assert made.unreported == [True]


async def test_failed_directory_is_left_out_of_a_later_registration() -> None:
    made = Reporting()
    made.fail(B)
    made.lifecycle.start("c")
    body, _ = made.last
    assert isinstance(body, BrokerRegistrationRequest)
    assert body.log_dirs == (A,)


async def test_recorded_failures_survive_and_a_damaged_record_names_every_directory(
    tmp_path: Path,
) -> None:
    FailedDirectories(tmp_path).add(A, "EIO")
    FailedDirectories(tmp_path).add(A, "a later one")
    again = FailedDirectories(tmp_path)
    assert (again.reason(A), again.reason(B)) == ("EIO", None)
    again.add(B, "EROFS")
    assert FailedDirectories(tmp_path).reason(A) == "EIO"
    again.path.write_bytes(b"\xff[")
    damaged = FailedDirectories(tmp_path).reason(B)
    assert damaged is not None
    assert "is damaged" in damaged
