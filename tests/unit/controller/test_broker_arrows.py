"""The broker state machine as a broker meets it (K631-10): requests, the clock, and the records that are committed.

Every arrow by a registration and by the end of a lease, from every state; those by heartbeats where a record carries the state.
"""

import pytest

from quorum_node.controller.broker_state import BrokerState, state_of
from quorum_node.controller.feature_levels import OF_A_NEW_CLUSTER
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import RegisterBrokerRecord
from support.broker_requests import heartbeat, registration
from support.partition_env import FAR, PartitionEnv

pytestmark = pytest.mark.requirement("K631-10")

INITIAL, ACTIVE, SHUTTING_DOWN = BrokerState.INITIAL, BrokerState.ACTIVE, BrokerState.SHUTTING_DOWN
FENCED, SHUTDOWN = BrokerState.FENCED, BrokerState.SHUTDOWN
SESSION_MS = 9000
BROKER, OTHER = 7, 8


def broker(env: PartitionEnv) -> RegisterBrokerRecord:
    """The registration, as it is committed."""
    found = env.committed.image.brokers.get(BROKER)
    assert found is not None
    return found


def state(env: PartitionEnv) -> BrokerState:
    """The broker state; INITIAL and FENCED differ by whether this controller has received a request of the process."""
    found, view = broker(env), env.controller.view()
    assert view is not None
    lease = view.leases.get(BROKER, found.broker_epoch)
    first = lease is None or lease.metadata_offset < 0
    return state_of(found.fenced, found.in_controlled_shutdown, first=first)


async def env_in(wanted: BrokerState) -> PartitionEnv:
    """Broker 7 in a state, by its requests alone; 8 is active."""
    env = PartitionEnv()
    await env.begin(OTHER)
    answer = await env.do(registration(BROKER))
    env.epochs[BROKER] = answer.broker_epoch
    if wanted is not INITIAL:
        await env.beat(BROKER)
    if wanted is FENCED:
        await env.beat(BROKER, want_fence=True)
    if wanted in (SHUTTING_DOWN, SHUTDOWN):
        await env.topic((BROKER, OTHER))
        answer = await env.beat(BROKER, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (False, False), (
            "broker 8 still leads a partition"
        )
    if wanted is SHUTDOWN:
        answer = await env.beat(BROKER, want_shut_down=True)
        assert not answer.should_shut_down, (
            "the leader has moved; broker 8 has to follow the metadata from here"
        )
        await env.beat(OTHER)
        answer = await env.beat(BROKER, want_shut_down=True)
        assert answer.should_shut_down
    assert state(env) is wanted
    return env


async def its_lease_ends(env: PartitionEnv) -> None:
    """Time goes by without a heartbeat of 7; that 9 comes makes the controller look."""
    env.now_ms += SESSION_MS
    await env.beat(OTHER)
    await env.start(9)
    await env.settle()


@pytest.mark.parametrize("before", BrokerState)
async def test_new_process_gets_a_new_broker_epoch(before: BrokerState) -> None:
    env = await env_in(before)
    old = env.epochs[BROKER]
    answer = await env.do(registration(BROKER, incarnation=2))
    await env.settle()
    assert answer.broker_epoch > old
    assert (state(env), broker(env).broker_epoch) == (INITIAL, answer.broker_epoch)
    late = await env.do(heartbeat(BROKER, old, FAR))
    assert late.error_code == ErrorCode.STALE_BROKER_EPOCH
    env.epochs[BROKER] = answer.broker_epoch
    assert not (await env.beat(BROKER)).is_fenced, "the lease is restored with the new epoch"
    assert state(env) is ACTIVE


@pytest.mark.parametrize("before", BrokerState)
async def test_same_process_keeps_state_and_epoch(before: BrokerState) -> None:
    env = await env_in(before)
    answer = await env.do(registration(BROKER))
    await env.settle()
    assert answer.broker_epoch == env.epochs[BROKER]
    assert state(env) is before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (INITIAL, INITIAL),
        (ACTIVE, FENCED),
        (FENCED, FENCED),
        (SHUTTING_DOWN, SHUTDOWN),
        (SHUTDOWN, SHUTDOWN),
    ],
)
async def test_expired_lease_changes_the_broker_state(
    before: BrokerState, after: BrokerState
) -> None:
    env = await env_in(before)
    env.now_ms += SESSION_MS - 1
    await env.beat(OTHER)
    await env.settle()
    assert state(env) is before, "one millisecond early"
    await its_lease_ends(env)
    assert state(env) is after
    assert broker(env).broker_epoch == env.epochs[BROKER]


async def test_expired_lease_is_restored_under_its_epoch() -> None:
    """The deviation from the draft: the shipped answer has no field for a new epoch."""
    env = await env_in(ACTIVE)
    await its_lease_ends(env)
    answer = await env.beat(BROKER)
    assert (answer.error_code, answer.is_fenced) == (ErrorCode.NONE, False)
    assert (state(env), broker(env).broker_epoch) == (ACTIVE, env.epochs[BROKER])


async def test_lease_expiry_during_a_controlled_shutdown_completes_the_shutdown() -> None:
    """Its leaders are moved all the same, and its next heartbeat is answered with shutdown, whatever it requests."""
    env = await env_in(SHUTTING_DOWN)
    await its_lease_ends(env)
    assert (env.partition().leader, env.partition().isr) == (OTHER, (OTHER,))
    for wish in ({}, {"want_fence": True}, {"want_shut_down": True}):
        answer = await env.beat(BROKER, **wish)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True), wish
    assert state(env) is SHUTDOWN


@pytest.mark.parametrize("before", [INITIAL, ACTIVE, FENCED])
async def test_shutdown_is_final_for_a_broker_epoch(before: BrokerState) -> None:
    """Of a broker that leads nothing it is granted at once; the record of it outlives the controller that granted it."""
    env = await env_in(before)
    answer = await env.beat(BROKER, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert state(env) is SHUTDOWN
    await env.lose()
    await env.lead(2)
    await env.settle()
    answer = await env.beat(BROKER)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert state(env) is SHUTDOWN


async def test_leading_broker_that_requests_fencing_and_shutdown_stops() -> None:
    env = await env_in(ACTIVE)
    await env.topic((BROKER, OTHER))
    answer = await env.beat(BROKER, want_fence=True, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert (state(env), env.partition().leader) == (SHUTDOWN, OTHER)


async def test_stale_metadata_revokes_the_lease_until_the_broker_has_caught_up() -> None:
    env = await env_in(ACTIVE)
    await env.start(9)
    env.now_ms += env.controller.settings.max_metadata_age_ms + 1
    registered = env.epochs[BROKER]
    assert registered >= len(OF_A_NEW_CLUSTER)
    answer = await env.do(heartbeat(BROKER, registered, registered))
    await env.settle()
    assert (answer.is_fenced, state(env)) == (True, FENCED)
    answer = await env.do(heartbeat(BROKER, registered, env.high_watermark))
    await env.settle()
    assert (answer.is_fenced, state(env)) == (False, ACTIVE)
