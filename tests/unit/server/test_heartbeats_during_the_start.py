"""Heartbeats of a broker that still opens its logs (broker/lifecycle.py)."""

import asyncio

import pytest

from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.lifecycle import (
    BrokerState,
    Lifecycle,
    LifecycleCallbacks,
    registration,
)
from support.hosted_replicas import ME, SilentController

pytestmark = pytest.mark.virtual_time

EPOCH = 5
INTERVAL_MS = 2_000


class Starting:
    """A broker that is registered, and whose heartbeats are answered at once."""

    def __init__(self) -> None:
        self.applied = -1
        self.beats: list[BrokerHeartbeatRequest] = []
        self._controller = SilentController()
        self.lifecycle = Lifecycle(
            registration(ME, None, (), (), -1),
            self._controller,  # type: ignore[arg-type]
            BrokerEvents(),
            BrokerState(lambda: self.applied),
            LifecycleCallbacks(),
            interval_ms=INTERVAL_MS,
        )
        self.lifecycle.start("c")
        _, answered = self._controller.asked.pop()
        answered(BrokerRegistrationResponse(error_code=0, broker_epoch=EPOCH))

    async def answer_for(self, seconds: float, *, is_fenced: bool = True) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            for body, answered in self._controller.asked:
                assert isinstance(body, BrokerHeartbeatRequest)
                self.beats.append(body)
                answered(
                    BrokerHeartbeatResponse(
                        error_code=0,
                        is_caught_up=not body.want_fence,
                        is_fenced=is_fenced,
                        should_shut_down=body.want_shut_down,
                    )
                )
            self._controller.asked.clear()
            await asyncio.sleep(0.01)


async def test_broker_that_opens_its_logs_sends_no_more_heartbeats_than_another() -> None:
    broker = Starting()
    await broker.answer_for(60)
    assert all(each.want_fence for each in broker.beats)
    assert 29 <= len(broker.beats) <= 31
    broker.lifecycle.close()


async def test_broker_whose_logs_are_open_asks_at_once_and_often_to_be_unfenced() -> None:
    broker = Starting()
    await broker.answer_for(11)
    broker.beats.clear()
    broker.applied = EPOCH
    broker.lifecycle.image_applied()
    await broker.answer_for(1)
    assert not broker.beats[0].want_fence
    assert len(broker.beats) > 5
    broker.lifecycle.close()


async def test_broker_leaves_before_its_logs_are_open() -> None:
    broker = Starting()
    await broker.answer_for(11)
    left: list[bool] = []
    broker.lifecycle.leave(lambda: left.append(True))
    await broker.answer_for(0.1)
    assert left == [True]
    assert broker.beats[-1].want_fence
