"""The broker state machine: states of brokers, and their transitions by heartbeats, registrations and expired leases. PURE.

Owns the states and every transition. Must not know records or leases; facts are passed as values.

    by a heartbeat             INITIAL, FENCED -- caught up ------------------------> ACTIVE
                               INITIAL, FENCED -- behind, or asks to be fenced -----> FENCED
                               INITIAL, FENCED -- asks to shut down ----------------> SHUTDOWN
                               ACTIVE ----------- too stale, or asks to be fenced --> FENCED
                               ACTIVE ----------- asks to shut down, leads ---------> ACTIVE, shutting down
                               ACTIVE ----------- asks to shut down, leads nothing -> SHUTDOWN
                               shutting down ---- leaders moved, all informed ------> SHUTDOWN
    by the end of its lease    ACTIVE ----------------------------------------------> FENCED
                               shutting down ---------------------------------------> SHUTDOWN
    by a registration          nothing, or any state -- a new process, new epoch ---> INITIAL
                               any state -- the same process, same epoch -----------> the same state

SHUTDOWN is final for a broker epoch. A shutdown in progress is neither cancelled, nor ended because of stale metadata:
the leaders were moved away from the broker. When its lease ends it is shut down at once.

Source: KIP-631, "The Broker State Machine"; the shipped heartbeat has WantFence and WantShutDown where the
draft has a target state. In the draft a lease is restored with a new broker epoch. As shipped, the answer to a
heartbeat has no field for one: a process whose lease ended returns with its epoch, a new process gets a new one.
"""

from dataclasses import dataclass
from enum import Enum


class BrokerState(Enum):
    """The states of KIP-631. ACTIVE has a variant: in controlled shutdown."""

    INITIAL = "initial"
    ACTIVE = "active"
    SHUTTING_DOWN = "active, in controlled shutdown"
    FENCED = "fenced"
    SHUTDOWN = "shut down"


class Wish(Enum):
    """What a heartbeat requests."""

    ACTIVE = "active"
    FENCED = "fenced"
    SHUTDOWN = "shut down"
    SHUTDOWN_NOW = "shut down at once"


@dataclass(frozen=True, slots=True)
class Facts:
    """Inputs of the decision.

    `caught_up`: the broker has applied its own registration, and is not too far behind.
    `too_stale`: its metadata is older than allowed. `leads`: it is the leader of a partition.
    `all_brokers_know`: all active brokers have applied that it is shutting down.
    """

    wish: Wish
    caught_up: bool
    too_stale: bool
    leads: bool
    all_brokers_know: bool


_MARKS = {
    BrokerState.INITIAL: (True, False),
    BrokerState.ACTIVE: (False, False),
    BrokerState.SHUTTING_DOWN: (False, True),
    BrokerState.FENCED: (True, False),
    BrokerState.SHUTDOWN: (True, True),
}


def flags_of(state: BrokerState) -> tuple[bool, bool]:
    """Flags of the registration record in a state: fenced, and in controlled shutdown."""
    return _MARKS[state]


def state_of(fenced: bool, in_controlled_shutdown: bool, *, first: bool = False) -> BrokerState:
    """State of a registered broker. `first`: its process has not sent a heartbeat yet."""
    if fenced:
        if in_controlled_shutdown:
            return BrokerState.SHUTDOWN
        return BrokerState.INITIAL if first else BrokerState.FENCED
    return BrokerState.SHUTTING_DOWN if in_controlled_shutdown else BrokerState.ACTIVE


def wish_of(want_fence: bool, want_shut_down: bool) -> Wish:
    """The request of a heartbeat, from its two flags."""
    if want_shut_down:
        return Wish.SHUTDOWN_NOW if want_fence else Wish.SHUTDOWN
    return Wish.FENCED if want_fence else Wish.ACTIVE


def next_state(state: BrokerState, facts: Facts) -> BrokerState:
    """State after a heartbeat."""
    if state is BrokerState.SHUTDOWN:
        return state
    if state is BrokerState.SHUTTING_DOWN:
        # A controlled shutdown can't be cancelled: its leaders were moved away.
        ready = facts.all_brokers_know and not facts.leads
        return BrokerState.SHUTDOWN if ready else state
    if facts.wish is Wish.SHUTDOWN_NOW:
        return BrokerState.SHUTDOWN
    if state is not BrokerState.ACTIVE:
        if facts.wish is Wish.SHUTDOWN:
            return BrokerState.SHUTDOWN
        active = facts.wish is Wish.ACTIVE and facts.caught_up
        return BrokerState.ACTIVE if active else BrokerState.FENCED
    if facts.wish is Wish.SHUTDOWN:
        return BrokerState.SHUTTING_DOWN if facts.leads else BrokerState.SHUTDOWN
    if facts.wish is Wish.FENCED or facts.too_stale:
        return BrokerState.FENCED
    return BrokerState.ACTIVE


def lease_ended(state: BrokerState) -> BrokerState:
    """State after the end of its lease."""
    if state is BrokerState.ACTIVE:
        return BrokerState.FENCED
    return BrokerState.SHUTDOWN if state is BrokerState.SHUTTING_DOWN else state


def registered(state: BrokerState | None, *, same_process: bool) -> BrokerState:
    """State after a registration; None: its id was not registered. A new process has a new epoch."""
    return state if state is not None and same_process else BrokerState.INITIAL
