"""Pauses of 0.5 to 2 s: only a leader that is silent for about 1 s is deposed, and then writes go on sooner than with it."""

import pytest

from quorum_node.raft import RaftConfig
from quorum_simulation.clients import WRITE_TIMEOUT_MS
from quorum_simulation.stalls import Stall, run

SILENCE_MS = RaftConfig(()).silence_ms
FETCH_TIMEOUT_MS = RaftConfig(()).fetch_timeout_ms
LATE_TIMER_MS = 100.0
"""Only a timer later than this shows a process that it was paused."""
ROUND_TRIP_MS = 50.0
MARGIN_MS = 400.0
THE_LEADER, ALL_FOLLOWERS, ALL_PROCESSES = "the leader", "all followers", "all processes"


def check(stalls: list[Stall]) -> None:
    for stall in stalls:
        assert stall.elections == 0 or _may_elect(stall), stall
        # A request to the paused leader times out only then, when there is another one.
        assert stall.gap_ms < max(WRITE_TIMEOUT_MS, stall.length_ms) + MARGIN_MS, stall


def _may_elect(stall: Stall) -> bool:
    """A silent leader is deposed, and so is one without fetches for the fetch timeout.

    After a pause of all processes every follower requests pre-votes only if its timer is so little late that this is no
    sign of a pause.
    """
    length_ms = stall.length_ms
    if stall.kind == THE_LEADER:
        return length_ms > SILENCE_MS - 300
    if stall.kind == ALL_FOLLOWERS:
        return length_ms > FETCH_TIMEOUT_MS - ROUND_TRIP_MS
    if stall.kind == ALL_PROCESSES:
        return SILENCE_MS < length_ms < SILENCE_MS + LATE_TIMER_MS
    return False


@pytest.mark.requirement("K650-01")
def test_pause_of_a_process_other_than_the_leader_causes_no_election() -> None:
    """Followers, all processes, disks: each processes the leader's messages before its own timer."""
    check(run([1], stalls=6))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_pauses_cause_no_election() -> None:
    stalls = run(range(101, 121))
    check(stalls)
    long_ones = [s for s in stalls if s.kind == THE_LEADER and s.length_ms > SILENCE_MS + 300]
    assert long_ones
    assert all(s.elections == 1 for s in long_ones), "one election each, and no split vote"
