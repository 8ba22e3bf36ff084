"""What a broker logs while the controller refuses its registration: the reason, what to do, and not every attempt."""

import asyncio

import pytest
from structlog.testing import capture_logs

from quorum_node.protocol.broker_registration import BrokerRegistrationResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.lifecycle import (
    BrokerState,
    Lifecycle,
    LifecycleCallbacks,
    registration,
)
from support.hosted_replicas import ME, SilentController

pytestmark = pytest.mark.virtual_time

HOUR_S = 3600


async def refused_for_an_hour(controller: SilentController, code: ErrorCode) -> int:
    """The number of requests."""
    requests, end_s = 0, asyncio.get_running_loop().time() + HOUR_S
    while asyncio.get_running_loop().time() < end_s:
        while controller.asked:
            requests += 1
            _, answered = controller.asked.pop()
            answered(BrokerRegistrationResponse(error_code=code))
        await asyncio.sleep(1)
    return requests


async def test_refused_registration_is_logged_with_advice_and_ever_more_rarely() -> None:
    controller = SilentController()
    lifecycle = Lifecycle(
        registration(ME, None, (), (), -1),
        controller,  # type: ignore[arg-type]
        BrokerEvents(),
        BrokerState(lambda: 0),
        LifecycleCallbacks(),
        interval_ms=2_000,
    )
    lifecycle.start("c")
    with capture_logs() as lines:
        taken = await refused_for_an_hour(controller, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert taken > 600
    assert 3 < len(lines) < 15
    assert "give this broker an id of its own" in lines[0]["event"]
    with capture_logs() as lines:
        await refused_for_an_hour(controller, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert "cluster.id in meta.properties" in lines[0]["event"], "another reason is logged at once"
    _, answered = controller.asked.pop()
    with capture_logs() as lines:
        answered(FailureReason.TIMEOUT)
    assert "the request to the active controller ended" in lines[0]["event"]
    lifecycle.close()
