"""A process registers as a controller: with whom, when, when again, and when it must not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.api import Api
from quorum_node.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import NO_LEADER, CurrentLeader
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.metadata import (
    METADATA_VERSION,
    FeatureLevelRecord,
    MetadataMessage,
    NodeEndpoint,
    RegisterControllerRecord,
    SupportedFeature,
)
from quorum_node.records.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL
from quorum_node.schema.schema import Message
from quorum_node.server.controller import registrar as module
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.registrar import Registrar, own_registration
from support.controller_env import VOTERS, Env

SECOND = VOTERS[1]
HERE = Endpoint("CONTROLLER", "two", 9093)
REGISTERED = ControllerRegistrationResponse(error_code=0)
REFUSED = ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Standby:
    """Node 2 and its registrar; the test is the leader, the log and the voters."""

    def __init__(self, *, level: int = CONTROLLER_REGISTRATION_LEVEL) -> None:
        self.key = SECOND
        self.committed = CommittedImage()
        self.newest: ReplicaKey | None = SECOND
        self.known = CurrentLeader(NO_LEADER, 0)
        self.asked: list[tuple[str, ControllerRegistrationRequest]] = []
        self._answer: Callable[[Message | FailureReason], None] | None = None
        self._changed = asyncio.Event()
        self.own = own_registration(SECOND, HERE)
        events, env = ControllerEvents(), Env()
        self.registrar = Registrar(self, self.own, env.controller, self._ask, events)
        self.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))

    def leader(self) -> CurrentLeader:
        return self.known

    def newest_voter_of_own_id(self) -> ReplicaKey | None:
        return self.newest

    def has_stopped(self) -> bool:
        return False

    def led_by(self, leader_id: int, epoch: int) -> None:
        self.known = CurrentLeader(leader_id, epoch, Endpoint("CONTROLLER", f"n{leader_id}", 9093))
        self.registrar.look()

    def replay(self, *records: MetadataMessage) -> None:
        self.committed.replay(records)
        self.registrar.image_changed()

    def answer(self, outcome: Message | FailureReason) -> None:
        answer, self._answer = self._answer, None
        assert answer is not None, "nothing was asked"
        answer(outcome)

    async def asks(self, times: int) -> list[str]:
        """The nodes it has queried, once their number is reached."""
        async with asyncio.timeout(10):
            while len(self.asked) < times:
                self._changed.clear()
                await self._changed.wait()
        assert len(self.asked) == times
        return [host for host, _ in self.asked]

    def _ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
    ) -> None:
        assert isinstance(body, ControllerRegistrationRequest)
        assert self._answer is None, "it asked twice"
        self.asked.append((destination.host, body))
        self._answer = done
        self._changed.set()


def record_of(own: ControllerRegistrationRequest) -> RegisterControllerRecord:
    """What a controller writes for it."""
    return RegisterControllerRecord(
        controller_id=own.controller_id,
        incarnation_id=own.incarnation_id or UUID(int=0),
        end_points=tuple(
            NodeEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=0)
            for each in own.listeners
        ),
        features=tuple(
            SupportedFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in reversed(own.features)
        ),
    )


async def test_controller_registers_once_when_leader_and_level_are_known() -> None:
    node = Standby(level=CONTROLLER_REGISTRATION_LEVEL - 1)
    node.led_by(1, epoch=4)
    assert node.asked == [], "the feature level has no registrations"
    level = CONTROLLER_REGISTRATION_LEVEL
    node.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
    assert await node.asks(1) == ["n1"]
    (_, request), *_ = node.asked
    assert (request.controller_id, request.directory_id) == (SECOND.id, SECOND.uuid)
    assert [(each.host, each.port) for each in request.listeners] == [("two", 9093)]
    assert "kraft.version" in {each.name for each in request.features}
    node.answer(REGISTERED)
    node.replay(record_of(node.own))
    node.led_by(3, epoch=5)
    await asyncio.sleep(1.5 * module.FIRST_PAUSE_SECONDS)
    assert len(node.asked) == 1


async def test_rejected_registration_is_retried_after_a_delay_and_with_a_new_leader_immediately() -> (
    None
):
    node = Standby()
    assert node.asked == [], "no leader is known"
    node.led_by(1, epoch=4)
    node.answer(REFUSED)
    node.registrar.look()
    assert len(node.asked) == 1, "not without a pause"
    assert await node.asks(2) == ["n1", "n1"]
    node.answer(FailureReason.TIMEOUT)
    node.led_by(3, epoch=5)
    assert [host for host, _ in node.asked] == ["n1", "n1", "n3"]
    node.led_by(1, epoch=6)
    node.answer(FailureReason.CLOSED)
    assert [host for host, _ in node.asked][3:] == ["n1"], "the leader changed while it waited"
    node.answer(REGISTERED)
    assert len(await node.asks(5)) == 5, "an answer without the record is not enough"
    node.registrar.close()


async def test_foreign_registration_under_its_id_is_overwritten() -> None:
    node = Standby()
    before = record_of(node.own)
    for index, other in enumerate(
        (
            replace(before, incarnation_id=UUID(int=9)),
            replace(before, end_points=(replace(before.end_points[0], port=1),)),
            replace(before, features=before.features[1:]),
        )
    ):
        node.replay(other)
        node.led_by(1, epoch=index)
        assert len(node.asked) == index + 1
        node.answer(REGISTERED)
        node.replay(before)
    node.registrar.close()


async def test_only_the_newest_voter_of_a_doubled_id_registers() -> None:
    node = Standby()
    node.newest = ReplicaKey(SECOND.id, UUID(int=1 << 100))
    node.led_by(1, epoch=4)
    assert node.asked == []
    node.newest = SECOND
    node.registrar.look()
    assert len(node.asked) == 1
    node.registrar.close()


async def test_observer_with_an_id_used_by_another_process_does_not_register() -> None:
    node = Standby()
    node.newest = None
    node.replay(record_of(node.own))
    node.led_by(1, epoch=4)
    node.replay(replace(record_of(node.own), incarnation_id=UUID(int=9)))
    node.led_by(1, epoch=5)
    assert node.asked == []
    node.newest = SECOND
    node.registrar.look()
    assert len(node.asked) == 1, "as a voter it is the one that counts"
    node.registrar.close()


async def test_active_controller_registers_itself() -> None:
    env = Env(maintained=True)

    class Leading(Standby):
        def __init__(self) -> None:
            super().__init__()
            self.key = self.newest = VOTERS[0]
            self.committed = env.committed
            self.own = own_registration(VOTERS[0], HERE)
            events = ControllerEvents()
            self.registrar = Registrar(self, self.own, env.controller, self._ask, events)

    node = Leading()
    await env.lead()
    await env.commit()
    node.led_by(1, epoch=1)
    node.registrar.image_changed()
    (record,) = await env.commit()
    assert isinstance(record, RegisterControllerRecord)
    assert record.incarnation_id == node.own.incarnation_id
    node.registrar.image_changed()
    assert await env.commit() == []
    assert node.asked == []
    node.registrar.close()
