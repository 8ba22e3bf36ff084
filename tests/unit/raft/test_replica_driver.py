"""The driver's one duty: outputs in order, and nothing behind a failed one."""

from uuid import UUID

import pytest

from quorum_node.raft import LogState, QuorumState, RaftConfig, RaftError, Replica
from quorum_node.raft.events import (
    Proposed,
    ReadRequested,
    RequestReceived,
    ResponseReceived,
    SnapshotCreated,
    SnapshotInstalled,
)
from quorum_node.raft.messages import (
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    OutboundRequest,
    Response,
)
from quorum_node.raft.outputs import (
    Halt,
    HaltReason,
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
    ResetLog,
    RoleChanged,
    TruncateLog,
    VotersChanged,
)
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure

KEY = ReplicaKey(1, UUID(int=1))
PEER = Endpoint("CONTROLLER", "two", 9093)
SNAPSHOT = SnapshotId(9, 1)


class Devices:
    """All devices and the listener in one, writing down what is done."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.done: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.tickets: list[int] = []
        self.halts: list[Halt] = []
        self.bugs: list[Exception] = []
        self.saved: QuorumState | None = None
        self.snapshots: dict[SnapshotId, int] = {}
        self.answers: list[Response] = []
        self.sent: dict[type, int] = {}
        """Correlation of the last request of a kind."""

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what in self.fail:
            raise self.fail[what]

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        self._do("append")
        self.end_offset = end_offset

    def truncate_to(self, end_offset: int) -> None:
        self._do("truncate")

    def read(self, *what: object) -> bytes:
        self._do(" ".join(str(each) for each in ("read", *what)))
        return b""

    def read_checked(self, *what: int) -> bytes:
        self._do("read checked")
        return b""

    def flush(self) -> int:
        self._do("flush")
        return self.end_offset

    def reset_to(self, id: SnapshotId) -> None:
        self._do(f"reset to {id}")
        self.start_offset = self.end_offset = id.end_offset

    def delete_prefix(self, id: SnapshotId) -> None:
        self._do(f"delete before {id}")

    def size_bytes(self, id: SnapshotId) -> int | None:
        return self.snapshots.get(id)

    def checksum(self, id: SnapshotId) -> int | None:
        return 77

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        self._do(f"write {id} at {position}")

    def drop_partial(self, id: SnapshotId) -> None:
        self._do(f"drop {id}")

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        self._do(f"finish {id}")

    def log_reset(self, id: SnapshotId) -> None:
        self._do(f"load {id}")

    def save(self, state: QuorumState) -> None:
        self._do("save")
        self.saved = state

    def start(self, ticket: int) -> None:
        self.tickets.append(ticket)

    def send(
        self, correlation: int, endpoint: Endpoint, request: OutboundRequest, timeout_ms: float
    ) -> None:
        self._do("send")
        self.sent[type(request)] = correlation

    def respond(self, request_id: int, response: Response) -> None:
        self._do("respond")
        self.answers.append(response)

    def proposal_committed(self, output: ProposalCommitted) -> None:
        self._do("committed")

    def proposal_failed(self, output: ProposalFailed) -> None:
        self._do("failed")

    def read_confirmed(self, output: ReadConfirmed) -> None:
        self._do("read")

    def read_failed(self, output: ReadFailed) -> None:
        self._do("read failed")

    def high_watermark_advanced(self, offset: int) -> None:
        self._do(f"high watermark {offset}")

    def role_changed(self, output: RoleChanged) -> None:
        self._do(output.role.value)

    def formation_delayed(self, output: object) -> None: ...

    def ahead_of_leader(self, output: object) -> None: ...

    def replica_went_back(self, output: object) -> None: ...

    def corrupt_fetch(self, output: object) -> None: ...

    def corruption_reported(self, output: object) -> None: ...

    def older_quorum(self, output: object) -> None: ...

    def superseded(self, output: object) -> None: ...

    def broken(self, error: Exception) -> None:
        self.bugs.append(error)

    def voters_changed(self, output: VotersChanged) -> None:
        pass

    def halted(self, output: Halt) -> None:
        self.halts.append(output)

    def deadline_changed(self, deadline_ms: float | None) -> None:
        pass


def single_voter() -> tuple[ReplicaDriver, Devices]:
    devices = Devices()
    config = RaftConfig((Endpoint("CONTROLLER", "one", 9093),), cluster_id="A", founder=True)
    replica = Replica(config, KEY, None, LogState(), lambda: 0.5)
    driver = ReplicaDriver(
        replica, devices, devices, devices, lambda: 0.0, devices, devices, devices
    )
    return driver, devices


@pytest.mark.requirement("K595-06")
def test_log_is_flushed_and_vote_is_saved_before_later_actions() -> None:
    driver, devices = single_voter()
    driver.start()
    assert devices.done[:5] == ["candidate", "flush", "save", "leader", "append"]


@pytest.mark.requirement("K595-06")
def test_flushes_are_coalesced_and_cover_appends_made_meanwhile() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.tickets.clear()
    for number in range(5):
        driver.handle(Proposed(number, (b"x",)))
    assert devices.tickets == [0], "one flush runs, the others wait for the next one"
    assert "committed" not in devices.done
    driver.flush_completed(0, 4)
    assert devices.tickets == [0, 0]
    assert devices.done.count("committed") == 1
    driver.flush_completed(0, 8)
    assert devices.done.count("committed") == 5


def test_flush_from_before_a_truncation_does_not_count() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.tickets.clear()
    driver.handle(Proposed(1, (b"x",)))
    driver._truncate(TruncateLog(4))
    driver.flush_completed(0, 4)
    assert "committed" not in devices.done
    assert devices.tickets == [0, 1], "it is done again"
    driver.flush_completed(1, 4)
    assert "committed" in devices.done


@pytest.mark.parametrize("what", ["append", "save", "flush"])
@pytest.mark.requirement("K595-06")
def test_replica_stops_at_a_failure_and_executes_no_later_action(what: str) -> None:
    driver, devices = single_voter()
    devices.fail[what] = StorageFailure("EIO")
    driver.start()
    assert devices.done[-1] == what
    assert [halt.reason for halt in devices.halts] == [HaltReason.STORAGE_FAILED]
    driver.handle(ReadRequested(1))
    assert devices.done[-1] == "read failed"


@pytest.mark.requirement("K595-06")
def test_failed_background_flush_stops_the_replica_and_is_not_retried() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.tickets.clear()
    driver.handle(Proposed(1, (b"x",)))
    driver.flush_failed(StorageFailure("EIO"))
    assert [halt.reason for halt in devices.halts] == [HaltReason.STORAGE_FAILED]
    assert devices.tickets == [0]
    assert devices.done[-1] == "failed", "the failure of the proposal was not reported"
    assert "committed" not in devices.done


def test_full_disk_has_its_own_failure_reason() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.fail["append"] = DiskFull("ENOSPC")
    driver.handle(Proposed(1, (b"x",)))
    assert [halt.reason for halt in devices.halts] == [HaltReason.DISK_FULL]


def test_lack_of_descriptors_halts_with_its_own_reason() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.fail["append"] = OutOfResources("EMFILE")
    driver.handle(Proposed(1, (b"x",)))
    assert [halt.reason for halt in devices.halts] == [HaltReason.OUT_OF_RESOURCES]


def follower() -> tuple[ReplicaDriver, Devices]:
    devices = Devices()
    config = RaftConfig((Endpoint("CONTROLLER", "one", 9093),), bootstrap=(PEER,))
    driver = ReplicaDriver(
        Replica(config, KEY, None, LogState(), lambda: 0.5),
        devices, devices, devices, lambda: 0.0, devices, devices, devices,
    )  # fmt: skip
    driver.start()
    leader = CurrentLeader(2, 1, PEER)
    sent = devices.sent
    driver.handle(
        ResponseReceived(sent[FetchRequest], FetchResponse(RaftError.NOT_QUORUM_LEADER, leader))
    )
    refused = FetchResponse(RaftError.OFFSET_OUT_OF_RANGE, leader, snapshot_id=SNAPSHOT)
    driver.handle(ResponseReceived(sent[FetchRequest], refused))
    return driver, devices


def give(driver: ReplicaDriver, devices: Devices, response: FetchSnapshotResponse) -> None:
    driver.handle(ResponseReceived(devices.sent[FetchSnapshotRequest], response))


def part(position: int, data: bytes) -> FetchSnapshotResponse:
    leader = CurrentLeader(2, 1, PEER)
    return FetchSnapshotResponse(RaftError.NONE, leader, SNAPSHOT, 6, position, data, 77)


@pytest.mark.requirement("K853-08")
def test_log_is_deleted_only_after_its_snapshot_was_verified() -> None:
    driver, devices = follower()
    give(driver, devices, part(0, b"abcd"))
    give(driver, devices, part(4, b"ef"))
    steps = [each for each in devices.done if "-" in each]
    assert steps == ["write 9-1 at 0", "write 9-1 at 4", "finish 9-1"]
    devices.done.clear()
    driver.snapshot_finished(SnapshotInstalled(SNAPSHOT, None, 1))
    assert devices.done == [
        "reset to 9-1", "load 9-1", "high watermark 9", "flush", "save", "send",
    ]  # fmt: skip


@pytest.mark.requirement("K853-08")
def test_snapshot_part_that_cannot_be_written_stops_the_replica() -> None:
    driver, devices = follower()
    devices.fail["write 9-1 at 0"] = DiskFull("ENOSPC")
    give(driver, devices, part(0, b"abcd"))
    assert [halt.reason for halt in devices.halts] == [HaltReason.DISK_FULL]


@pytest.mark.requirement("K853-08")
def test_snapshot_parts_are_read_or_rejected() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    wanted = SnapshotId(3, 1)
    devices.snapshots[wanted] = 100
    driver.handle(SnapshotCreated(wanted))
    for number, position in enumerate((0, 99, 100)):
        request = FetchSnapshotRequest("A", KEY, 1, wanted, position, 50)
        driver.handle(RequestReceived(number, request))
    del devices.snapshots[wanted]
    driver.handle(RequestReceived(3, FetchSnapshotRequest("A", KEY, 1, wanted, 0, 50)))
    assert [each for each in devices.done if each.startswith("read")] == [
        "read 3-1 0 50", "read 3-1 99 50",
    ]  # fmt: skip
    answers = [each for each in devices.answers if isinstance(each, FetchSnapshotResponse)]
    assert [each.error for each in answers] == [
        RaftError.NONE,
        RaftError.NONE,
        RaftError.POSITION_OUT_OF_RANGE,
        RaftError.SNAPSHOT_NOT_FOUND,
    ]
    assert (answers[0].size_bytes, answers[0].checksum) == (100, 77)


def test_flush_from_before_a_reset_does_not_count() -> None:
    driver, devices = single_voter()
    driver.start()
    driver.flush_completed(0, 3)
    devices.tickets.clear()
    driver.handle(Proposed(1, (b"x",)))
    driver._reset_log(ResetLog(SnapshotId(9, 1)))
    driver.flush_completed(0, 4)
    assert "committed" not in devices.done


@pytest.mark.requirement("K595-06")
def test_no_event_is_handled_after_a_partially_executed_step() -> None:
    driver, devices = single_voter()
    devices.fail["append"] = OSError("not classified")
    with pytest.raises(OSError, match="not classified"):
        driver.start()
    assert [str(each) for each in devices.bugs] == ["not classified"]
    before = list(devices.done)
    driver.handle(Proposed(2, (b"b",)))
    assert devices.done == before
