"""The broker state machine: every arrow, and that there are no others."""

from dataclasses import replace
from itertools import product

import pytest

from quorum_node.controller.broker_state import (
    BrokerState,
    Facts,
    Wish,
    flags_of,
    lease_ended,
    next_state,
    registered,
    state_of,
    wish_of,
)

INITIAL, ACTIVE, SHUTTING_DOWN = BrokerState.INITIAL, BrokerState.ACTIVE, BrokerState.SHUTTING_DOWN
FENCED, SHUTDOWN = BrokerState.FENCED, BrokerState.SHUTDOWN

CALM = Facts(wish=Wish.ACTIVE, caught_up=True, too_stale=False, leads=False, all_brokers_know=False)
BEHIND = replace(CALM, caught_up=False)
STALE = replace(CALM, caught_up=False, too_stale=True)
LEAVES = replace(CALM, wish=Wish.SHUTDOWN)
LEAVES_AND_LEADS = replace(LEAVES, leads=True)

ARROWS = [
    (INITIAL, CALM, ACTIVE),
    (INITIAL, BEHIND, FENCED),
    (INITIAL, replace(CALM, wish=Wish.FENCED), FENCED),
    (INITIAL, LEAVES, SHUTDOWN),
    (ACTIVE, CALM, ACTIVE),
    (ACTIVE, BEHIND, ACTIVE),
    (ACTIVE, STALE, FENCED),
    (ACTIVE, replace(CALM, wish=Wish.FENCED), FENCED),
    (ACTIVE, LEAVES, SHUTDOWN),
    (ACTIVE, LEAVES_AND_LEADS, SHUTTING_DOWN),
    (ACTIVE, replace(LEAVES_AND_LEADS, wish=Wish.SHUTDOWN_NOW), SHUTDOWN),
    (FENCED, CALM, ACTIVE),
    (FENCED, BEHIND, FENCED),
    (FENCED, STALE, FENCED),
    (FENCED, replace(CALM, wish=Wish.FENCED), FENCED),
    (FENCED, LEAVES, SHUTDOWN),
    (FENCED, replace(LEAVES, wish=Wish.SHUTDOWN_NOW), SHUTDOWN),
    (SHUTTING_DOWN, LEAVES_AND_LEADS, SHUTTING_DOWN),
    (SHUTTING_DOWN, replace(LEAVES_AND_LEADS, all_brokers_know=True), SHUTTING_DOWN),
    (SHUTTING_DOWN, LEAVES, SHUTTING_DOWN),
    (SHUTTING_DOWN, replace(LEAVES, all_brokers_know=True), SHUTDOWN),
    (SHUTTING_DOWN, CALM, SHUTTING_DOWN),
    (SHUTDOWN, CALM, SHUTDOWN),
    (SHUTDOWN, LEAVES, SHUTDOWN),
]


@pytest.mark.requirement("K631-10")
@pytest.mark.parametrize(("state", "facts", "after"), ARROWS)
def test_each_state_transition(state: BrokerState, facts: Facts, after: BrokerState) -> None:
    assert next_state(state, facts) is after


@pytest.mark.requirement("K631-10")
def test_heartbeat_causes_no_undocumented_transition() -> None:
    ways: dict[BrokerState, set[BrokerState]] = {state: set() for state in BrokerState}
    flags = (True, False)
    for state, wish, *facts in product(BrokerState, Wish, flags, flags, flags, flags):
        ways[state].add(next_state(state, Facts(wish, *facts)))
    assert ways == {
        INITIAL: {ACTIVE, FENCED, SHUTDOWN},
        ACTIVE: {ACTIVE, FENCED, SHUTTING_DOWN, SHUTDOWN},
        SHUTTING_DOWN: {SHUTTING_DOWN, SHUTDOWN},
        FENCED: {ACTIVE, FENCED, SHUTDOWN},
        SHUTDOWN: {SHUTDOWN},
    }


@pytest.mark.requirement("K631-10")
@pytest.mark.parametrize(
    ("state", "after"),
    [
        (INITIAL, INITIAL),
        (ACTIVE, FENCED),
        (SHUTTING_DOWN, SHUTDOWN),
        (FENCED, FENCED),
        (SHUTDOWN, SHUTDOWN),
    ],
)
def test_each_transition_at_lease_expiry(state: BrokerState, after: BrokerState) -> None:
    assert lease_ended(state) is after


@pytest.mark.requirement("K631-10")
def test_each_transition_at_registration() -> None:
    assert registered(None, same_process=False) is INITIAL
    for state in BrokerState:
        assert registered(state, same_process=False) is INITIAL
        assert registered(state, same_process=True) is state


@pytest.mark.parametrize("state", BrokerState)
def test_registration_record_contains_the_broker_state(state: BrokerState) -> None:
    assert state_of(*flags_of(state), first=state is INITIAL) is state


@pytest.mark.parametrize(
    ("want_fence", "want_shut_down", "wish"),
    [
        (False, False, Wish.ACTIVE),
        (True, False, Wish.FENCED),
        (False, True, Wish.SHUTDOWN),
        (True, True, Wish.SHUTDOWN_NOW),
    ],
)
def test_released_heartbeat_flags_map_to_the_requested_state(
    want_fence: bool, want_shut_down: bool, wish: Wish
) -> None:
    assert wish_of(want_fence, want_shut_down) is wish
