"""The broker state machine: where a broker stands, and what its heartbeat moves it to. PURE.

Owns the states and every transition. Must not know records or leases; facts come in as values.

    INITIAL ──registered, caught up──> ACTIVE ──asks to shut down, leads──> ACTIVE, shutting down
       │                               │   ^                                   │
       └──registered, behind──> FENCED─┼───┘ caught up                         │ leaders moved off,
                                  ^    │                                       │ and everybody knows
           lease ended, too stale,└────┴─── (the same from shutting down) ─┐   v
           another process, asked for                                      └─ SHUTDOWN
                                FENCED ──asks to shut down──────────────────> SHUTDOWN

Source: KIP-631, "The Broker State Machine"; the shipped heartbeat has WantFence and WantShutDown where the
draft has a target state. A fenced broker comes back under its old epoch when only its lease had ended, and
under a new one when its process is a new one (the draft gives a new epoch in both cases).
"""

from dataclasses import dataclass
from enum import Enum


class BrokerState(Enum):
    """The draft's states. ACTIVE has a second face: a controlled shutdown that is under way."""

    INITIAL = "initial"
    ACTIVE = "active"
    SHUTTING_DOWN = "active, in controlled shutdown"
    FENCED = "fenced"
    SHUTDOWN = "shut down"


class Wish(Enum):
    """What a heartbeat asks for."""

    ACTIVE = "active"
    FENCED = "fenced"
    SHUTDOWN = "shut down"
    SHUTDOWN_NOW = "shut down without ceremony"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the decision depends on.

    `caught_up`: the broker has applied its own registration, and is not too far behind.
    `too_stale`: its metadata is older than allowed. `leads`: it is the leader of a partition.
    `everybody_knows`: all active brokers have applied that it is shutting down.
    """

    wish: Wish
    caught_up: bool
    too_stale: bool
    leads: bool
    everybody_knows: bool


def wish_of(want_fence: bool, want_shut_down: bool) -> Wish:
    """The shipped heartbeat's two flags."""
    if want_shut_down:
        return Wish.SHUTDOWN_NOW if want_fence else Wish.SHUTDOWN
    return Wish.FENCED if want_fence else Wish.ACTIVE


def next_state(state: BrokerState, facts: Facts) -> BrokerState:
    """Where a heartbeat takes a broker."""
    if state is BrokerState.SHUTDOWN:
        return state
    if state is BrokerState.SHUTTING_DOWN:
        # It asked once; that it moved its leaders away is not taken back.
        ready = facts.everybody_knows and not facts.leads
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
