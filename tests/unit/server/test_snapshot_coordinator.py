"""Snapshots in turn, as one node sees it: what it reports, when it waits, and when it goes by itself."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.controller.snapshot_turns import SETTLING_PERIODS, SILENT_PERIODS, SnapshotProgress
from quorum_node.controller.view import Replicas
from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.api import Api
from quorum_node.protocol.controller_heartbeat import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import NO_LEADER, CurrentLeader
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.controller.snapshot_coordinator import SnapshotCoordinator
from support.controller_env import VOTERS, Env

pytestmark = pytest.mark.requirement("K631-07")

POLICY = SnapshotPolicy(max_record_bytes=100, lagging_factor=4)
SETTLING_MS = SETTLING_PERIODS * POLICY.heartbeat_ms
SILENT_MS = SILENT_PERIODS * POLICY.heartbeat_ms


class Node:
    """Node 1 and its coordinator; the test is the clock, the other nodes and the disk."""

    def __init__(self, policy: SnapshotPolicy = POLICY) -> None:
        self.env = Env(maintained=True)
        self.key = VOTERS[0]
        self.known = CurrentLeader(NO_LEADER, 0)
        self.asked: list[tuple[str, ControllerHeartbeatRequest]] = []
        self.began = 0
        self.snapshot = SnapshotProgress(0, 0, 0, writing=False)
        self.caught_up = (3, 3)
        self.may_lead: list[ReplicaKey] = []
        self.handed_over: list[ReplicaKey] = []
        self.leading = False
        self._answer: Callable[[Message | FailureReason], None] | None = None
        self.coordinator = SnapshotCoordinator(
            self,
            self,
            self.env.controller,
            self._ask,
            Nondeterminism(lambda: self.env.now_ms),
            ControllerEvents(),
            policy,
        )
        self.env.turns = self.coordinator.turns

    @property
    def committed(self) -> CommittedImage:
        return self.env.committed

    def leader(self) -> CurrentLeader:
        return self.known

    def leading_epoch(self) -> int | None:
        return self.env.epoch

    def is_leader(self) -> bool:
        return self.leading

    def has_stopped(self) -> bool:
        return False

    def voters_caught_up(self) -> tuple[int, int]:
        return self.caught_up

    def successors(self) -> list[ReplicaKey]:
        return self.may_lead

    def hand_over(self, successor: ReplicaKey) -> None:
        self.handed_over.append(successor)

    def progress(self) -> SnapshotProgress:
        return self.snapshot

    def begin_turn(self) -> None:
        self.began += 1

    def led_by(self, leader_id: int, epoch: int) -> None:
        self.known = CurrentLeader(leader_id, epoch, Endpoint("CONTROLLER", f"n{leader_id}", 9093))
        self.coordinator.look()

    def answer(self, outcome: Message | FailureReason) -> None:
        answer, self._answer = self._answer, None
        assert answer is not None, "nothing was asked"
        answer(outcome)

    async def leads(self) -> None:
        """Becomes the active controller, with something committed."""
        self.leading = True
        self.led_by(1, epoch=1)
        await self.env.lead()
        await self.env.commit()
        self.env.now_ms += SETTLING_MS

    def beats(self, node_id: int, offset: int, record_bytes: int, uuid: UUID | None = None) -> bool:
        """Another controller's heartbeat; without a UUID that of a node of an older version."""
        request = ControllerHeartbeatRequest(
            controller_id=node_id,
            last_snapshot_offset=offset,
            record_bytes=record_bytes,
            age_ms=0,
            directory_id=uuid,
        )
        answer = self.env.ask(request).answer
        assert isinstance(answer, ControllerHeartbeatResponse)
        assert answer.error_code == 0
        return answer.start_snapshot

    def due(self, record_bytes: int = 100) -> bool:
        """A snapshot is due here; whether it may begin."""
        self.snapshot = SnapshotProgress(self.snapshot.offset, record_bytes, 0, writing=False)
        return self.coordinator.may_begin()

    def _ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
    ) -> None:
        assert isinstance(body, ControllerHeartbeatRequest)
        assert self._answer is None, "one heartbeat at a time"
        self.asked.append((destination.host, body))
        self._answer = done


def told(begin: bool) -> ControllerHeartbeatResponse:
    return ControllerHeartbeatResponse(error_code=0, start_snapshot=begin)


async def test_standby_starts_a_snapshot_when_assigned_and_not_when_due() -> None:
    node = Node()
    node.led_by(2, epoch=1)
    node.answer(told(False))
    assert not node.due()
    assert [host for host, _ in node.asked] == ["n2", "n2"], "due: it sends a heartbeat at once"
    assert node.asked[-1][1].record_bytes == 100
    node.answer(told(True))
    assert node.began == 1
    node.snapshot = SnapshotProgress(50, 0, 0, writing=False)
    node.coordinator.ended()
    assert node.asked[-1][1].last_snapshot_offset == 50, "the next one must not wait"
    node.coordinator.close()


async def test_heartbeats_continue_automatically() -> None:
    node = Node(SnapshotPolicy(heartbeat_ms=10))
    node.led_by(2, epoch=1)
    async with asyncio.timeout(10):
        while len(node.asked) < 4:
            if node._answer is not None:
                node.answer(told(False))
            await asyncio.sleep(0)
    node.coordinator.close()


async def test_replica_follows_its_own_policy_under_a_stock_leader() -> None:
    node = Node()
    node.led_by(2, epoch=1)
    assert not node.due(), "nothing is known of the leader yet"
    node.answer(FailureReason.UNSUPPORTED)
    assert node.due()
    requested = len(node.asked)
    node.coordinator.ended()
    assert len(node.asked) == requested, "it is not asked again"
    node.led_by(3, epoch=2)
    assert not node.due(), "another leader, maybe one of ours"
    node.coordinator.close()


async def test_replica_waits_for_an_active_controller_and_then_starts_by_itself() -> None:
    node = Node()
    node.led_by(2, epoch=1)
    node.answer(told(False))
    assert not node.due()
    node.answer(
        ControllerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER, start_snapshot=False)
    )
    node.env.now_ms += SILENT_MS - 1
    assert not node.due()
    node.env.now_ms += 1
    assert node.due()
    node.coordinator.close()


async def test_active_controller_schedules_others_first_then_resigns_and_writes_if_reelected() -> (
    None
):
    node = Node()
    await node.leads()
    node.may_lead = [VOTERS[2], VOTERS[1]]
    assert node.beats(2, 0, 100)
    assert not node.due()
    assert not node.beats(3, 0, 10), "not due"
    assert not node.beats(2, 5, 0)
    assert not node.due()
    assert node.handed_over == [VOTERS[2]]
    node.env.epoch = None
    assert not node.due(), "the handover is on its way"
    node.env.epoch = 1
    assert node.due(), "it is still the leader"
    assert node.handed_over == [VOTERS[2]]
    node.coordinator.close()


@pytest.mark.requirement("K853-02")
async def test_replica_with_the_id_of_the_leader_also_requests_its_turn() -> None:
    """While an id is doubled its older replica follows the newer one: without a request it would write out of turn."""
    node = Node()
    node.led_by(node.key.id, epoch=1)
    assert not node.due()
    assert node.asked, "the leader is another replica of the same id"
    assert node.asked[0][1].directory_id == node.key.uuid
    node.answer(told(False))
    node.env.now_ms += SILENT_MS - 1
    assert not node.due(), "it is coordinated"
    node.coordinator.close()


@pytest.mark.requirement("K853-02")
async def test_active_controller_distinguishes_replicas_of_one_id() -> None:
    node = Node()
    await node.leads()
    assert node.committed.end_offset > 2, "there is more to write behind all of these offsets"
    new = ReplicaKey(3, UUID(int=33))
    assert VOTERS[2].id == new.id
    assert node.beats(3, 0, 100, VOTERS[2].uuid)
    assert not node.beats(3, 1, 100, new.uuid), "the other replica was sent the request"
    assert not node.beats(2, 0, 100, VOTERS[1].uuid), "and has not ended"
    assert not node.beats(3, 1, 0, VOTERS[2].uuid)
    assert node.beats(2, 0, 100), "without a UUID: there is one replica with that id"
    node.env.seen = Replicas(fetching=(*VOTERS, new))
    assert not node.beats(2, 1, 0)
    assert node.beats(3, 0, 100), "one of the two, without its UUID"
    assert not node.beats(3, 2, 0)
    assert not node.beats(2, 1, 100), "the other one may be writing"
    node.coordinator.close()


async def test_leadership_is_not_transferred_to_a_replica_that_cannot_lead() -> None:
    node = Node()
    await node.leads()
    node.may_lead = [VOTERS[1]]
    assert node.due(), "2 sends no heartbeats: it runs stock Kafka, or has just started"
    assert node.handed_over == []
    fixed = Node(SnapshotPolicy(max_record_bytes=100, handover=False))
    await fixed.leads()
    fixed.may_lead = [VOTERS[1]]
    fixed.beats(2, 5, 0)
    assert fixed.due()
    assert fixed.handed_over == []
    node.coordinator.close()
    fixed.coordinator.close()


async def test_lagging_voters_delay_snapshots_of_all() -> None:
    node = Node()
    await node.leads()
    node.caught_up = (3, 2)
    assert not node.beats(2, 0, 399)
    assert not node.due(399)
    assert node.beats(2, 0, 400)
    node.beats(2, 5, 0)
    assert node.due(400)
    node.coordinator.close()
