"""Turns at writing snapshots: never two controllers at once, the active one last and after handing over."""

from uuid import UUID

import pytest

from quorum_node.controller.controller_heartbeats import controller_heartbeat
from quorum_node.controller.snapshot_turns import (
    AFTER_A_FAILURE_MS,
    LONGEST_TURN_MS,
    SETTLING_PERIODS,
    SILENT_PERIODS,
    SnapshotProgress,
    SnapshotTurns,
    Turn,
    is_strained,
)
from quorum_node.protocol.controller_heartbeat import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from quorum_node.records.identity import ReplicaKey
from support.controlled_cluster import ControlledCluster

pytestmark = pytest.mark.requirement("K631-07")

DUE_BYTES = 100
PERIOD_MS = 1000.0
SETTLING_MS, SILENT_MS = SETTLING_PERIODS * PERIOD_MS, SILENT_PERIODS * PERIOD_MS


class Turns:
    """An active controller; a snapshot is due after 100 bytes."""

    def __init__(self) -> None:
        self.own = SnapshotProgress(0, 0, 0, writing=False)
        self.now_ms = 0.0
        self.turns = SnapshotTurns(self._is_due, lambda: self.own, self.now_ms, PERIOD_MS)
        self.now_ms = SETTLING_MS

    @staticmethod
    def _is_due(progress: SnapshotProgress) -> bool:
        return progress.record_bytes >= DUE_BYTES

    def beat(
        self,
        replica: int | ReplicaKey,
        offset: int = 0,
        *,
        due: bool = True,
        writing: bool = False,
    ) -> bool:
        """A heartbeat; whether that controller may start. A number: the only replica of that id."""
        key = ReplicaKey(replica, UUID(int=replica)) if isinstance(replica, int) else replica
        progress = SnapshotProgress(offset, DUE_BYTES if due else 0, 0, writing)
        return self.turns.heartbeat(key, progress, self.now_ms)

    def own_turn(self, *, single_voter: bool = False, can_hand_over: bool = True) -> Turn:
        self.own = SnapshotProgress(0, DUE_BYTES, 0, writing=False)
        return self.turns.own_turn(
            self.now_ms, single_voter=single_voter, can_hand_over=can_hand_over
        )


def test_one_controller_writes_a_snapshot_at_a_time() -> None:
    turns = Turns()
    assert turns.beat(2)
    assert not turns.beat(3), "2 was sent the request"
    assert not turns.beat(2, writing=True)
    assert not turns.beat(3), "2 writes"
    assert not turns.beat(2, offset=10, due=False)
    assert turns.beat(3), "2 is done"


OLD, NEW, UNTOLD = ReplicaKey(3, UUID(int=3)), ReplicaKey(3, UUID(int=33)), ReplicaKey(3)


@pytest.mark.requirement("K853-02")
@pytest.mark.parametrize(("writer", "other"), [(OLD, NEW), (NEW, OLD)])
def test_two_replicas_of_one_id_have_two_turns(writer: ReplicaKey, other: ReplicaKey) -> None:
    turns = Turns()
    assert turns.beat(writer)
    assert not turns.beat(other, offset=5), "the other replica was sent the request"
    turns.beat(writer, writing=True)
    assert not turns.beat(other, offset=9, due=False), "it has nothing to write"
    assert not turns.beat(2), "the turn of the writing replica ended"
    assert turns.own_turn() is Turn.WAIT
    turns.beat(writer, offset=10, due=False)
    assert turns.beat(2)


@pytest.mark.requirement("K853-02")
def test_liveness_is_tracked_by_replica_key() -> None:
    turns = Turns()
    turns.beat(OLD)
    assert turns.turns.is_heard(OLD, turns.now_ms)
    assert not turns.turns.is_heard(NEW, turns.now_ms)
    turns.beat(ReplicaKey(4))
    assert turns.turns.is_heard(ReplicaKey(4, UUID(int=4)), turns.now_ms)


@pytest.mark.requirement("K853-02")
def test_single_report_without_uuid_does_not_end_the_turn_of_an_id() -> None:
    """A writer reports it within every period, so a longer silence means that no replica writes."""
    turns = Turns()
    assert turns.beat(UNTOLD)
    assert not turns.beat(UNTOLD, offset=5), "maybe another replica"
    for _ in range(4):
        turns.now_ms += PERIOD_MS
        turns.beat(UNTOLD, writing=True)
        turns.beat(UNTOLD, offset=5, due=False)
        assert not turns.beat(2), "one of them writes"
    for _ in range(SILENT_PERIODS - 1):
        turns.now_ms += PERIOD_MS
        turns.beat(UNTOLD, offset=9, due=False)
        assert not turns.beat(2)
    turns.now_ms += PERIOD_MS
    turns.beat(UNTOLD, offset=9, due=False)
    assert turns.beat(2)


def test_no_replica_starts_while_the_active_controller_writes() -> None:
    turns = Turns()
    turns.own = SnapshotProgress(0, 0, 0, writing=True)
    assert not turns.beat(2)
    turns.own = SnapshotProgress(9, 0, 0, writing=False)
    assert turns.beat(2)


def test_replica_that_is_not_due_gets_no_turn() -> None:
    turns = Turns()
    assert not turns.beat(2, due=False)
    assert turns.beat(2)


def test_new_active_controller_collects_heartbeats_first() -> None:
    turns = Turns()
    turns.now_ms = SETTLING_MS - 1
    assert not turns.beat(2)
    assert turns.own_turn() is Turn.WAIT
    assert not turns.beat(3, writing=True), "requested by the previous leader"
    turns.now_ms = SETTLING_MS
    assert not turns.beat(2)
    turns.beat(3, offset=10, due=False)
    assert turns.beat(2)


def test_active_controller_writes_last_and_resigns_first() -> None:
    turns = Turns()
    assert turns.beat(2)
    turns.beat(3, due=False)
    assert turns.own_turn() is Turn.WAIT, "2 writes"
    turns.beat(2, offset=10, due=False)
    turns.beat(3)
    turns.beat(3, offset=10, due=False)
    assert turns.own_turn() is Turn.HAND_OVER
    assert turns.own_turn(can_hand_over=False) is Turn.BEGIN


def test_active_controller_waits_for_due_replicas_that_have_not_asked_yet() -> None:
    turns = Turns()
    turns.own = SnapshotProgress(0, 0, 0, writing=True)
    turns.beat(2)
    turns.own = SnapshotProgress(0, 0, 0, writing=False)
    assert turns.own_turn() is Turn.WAIT


def test_single_controller_writes_immediately() -> None:
    turns = Turns()
    turns.now_ms = 0.0
    assert turns.own_turn(single_voter=True, can_hand_over=False) is Turn.BEGIN
    turns.beat(9, due=False)
    assert turns.own_turn(single_voter=True) is Turn.WAIT, (
        "an observer: it waits for a heartbeat first"
    )


def test_silent_or_unfinished_replica_does_not_delay_others() -> None:
    turns = Turns()
    assert turns.beat(2)
    turns.now_ms += SILENT_MS
    assert turns.beat(3), "2 sends no heartbeats any more"
    assert turns.own_turn() is Turn.WAIT
    began_ms = turns.now_ms
    while turns.now_ms < began_ms + LONGEST_TURN_MS:
        assert not turns.beat(2)
        turns.beat(3, writing=True)
        turns.now_ms += SILENT_MS / 2
    turns.beat(3, writing=True)
    assert turns.beat(2), "3 has exceeded the time limit"


def test_turn_without_a_snapshot_is_not_repeated_immediately() -> None:
    turns = Turns()
    assert turns.beat(2)
    assert not turns.beat(2), "no newer snapshot, and none in progress"
    assert turns.own_turn() is Turn.HAND_OVER, "waits for a replica that can't write"
    assert turns.beat(3)
    turns.beat(3, offset=10, due=False)
    turns.now_ms += AFTER_A_FAILURE_MS
    assert turns.beat(2)


@pytest.mark.parametrize(
    ("voters", "caught_up", "strained"),
    [
        (1, 1, False),
        (2, 2, False),
        (2, 1, True),
        (3, 3, False),
        (3, 2, True),
        (5, 4, False),
        (5, 3, True),
    ],
)
def test_quorum_is_strained_when_the_next_loss_costs_the_majority(
    voters: int, caught_up: int, strained: bool
) -> None:
    assert is_strained(voters, caught_up) is strained


def test_draft_heartbeat_is_answered() -> None:
    request = ControllerHeartbeatRequest(controller_id=2, last_snapshot_offset=5)
    answer = ControlledCluster().ask(controller_heartbeat, request, ControllerHeartbeatResponse)
    assert answer == ControllerHeartbeatResponse(error_code=0, start_snapshot=False)
