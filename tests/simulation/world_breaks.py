"""Code that works only if all clocks run alike, and answers arrive once and undamaged.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import RaftConfig, commit, fetch_following, following, reads
from quorum_node.raft import replica as replica_module
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.leadership import Leader
from quorum_node.raft.quorum import majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.raft.voters import VoterSet
from quorum_node.records.batches import PREFIX_BYTES, Batch, read_header
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.clock import Clock

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]
LEASE_MS = 1900.0
"""Less than the fetch timeout, in which no voter elects another leader, if all clocks run alike."""
RECENT_MS = 1000.0


def time_by_the_time_of_day(patch: Patch) -> None:
    """Timeouts are measured by the wall clock.

    Would: wait a day for a lost leader, after the clock was set back.
    """
    real = Clock.monotonic_ms
    patch.setattr(Clock, "monotonic_ms", lambda clock: real(clock) + clock.wall_offset_ms)


def take_records_unchecked(patch: Patch) -> None:
    """A follower appends what its leader's answer holds without comparing checksums.

    Would: write damaged records into its log, and serve them later.
    """

    def unchecked(records: bytes) -> tuple[list[Batch], int]:
        view, position, batches = memoryview(records), 0, []
        while len(view) - position > PREFIX_BYTES:
            header = read_header(view, position)
            end = position + header.size_bytes
            if end > len(view):
                break
            batches.append(Batch(header, view[position:end]))
            position = end
        return batches, len(view) - position

    patch.setattr(fetch_following, "split_batches", unchecked)


def read_by_a_lease(patch: Patch) -> None:
    """A leader confirms reads for as long after the fetches of a majority as voters wait with an election.

    Would: return stale values where the leader's clock is slower than those of the voters.
    """
    real = reads.confirm_reads

    def leased(state: ReplicaState, leader: Leader) -> None:
        real(state, leader)
        voters = state.voters.latest.voters
        heard_ms = majority_value(voters, lambda key: _fetched_ms(state, leader, key))
        if leader.own_epoch_committed and state.now_ms - heard_ms < LEASE_MS:
            while leader.reads:
                reads._confirmed(state, leader.reads.popleft())

    patch.setattr(reads, "confirm_reads", leased)
    # Voters keep their promise: they wait for the whole timeout, also after a closed connection.
    patch.setattr(following, "suspect", following.retry)
    patch.setattr(RaftConfig, "silence_ms", property(lambda config: config.fetch_timeout_ms))


def count_recent_fetches_only(patch: Patch) -> None:
    """A commit needs a majority of those voters that have fetched within the last second.

    Would: commit on the leader alone after its machine was suspended.
    """

    def recent(state: ReplicaState, leader: Leader, voters: VoterSet) -> int:
        ends = sorted(
            commit.durable_end_of(state, leader, key)
            for key in voters.ordered_keys
            if state.now_ms - _fetched_ms(state, leader, key, leader.elected_ms) < RECENT_MS
        )
        return ends[(len(ends) - 1) // 2] if ends else -1

    patch.setattr(commit, "_majority_end", recent)


def _fetched_ms(
    state: ReplicaState, leader: Leader, key: ReplicaKey, at_least_ms: float = -1e9
) -> float:
    if key == state.key:
        return state.now_ms
    progress = leader.progress.get(key)
    return at_least_ms if progress is None else progress.last_fetch_ms or at_least_ms


def take_an_answer_again(patch: Patch) -> None:
    """An answer that has no request any more is taken for that of the fetch under way.

    Would: append records twice, or confirm a read by an answer from before it.
    """
    real = replica_module._HANDLERS[ResponseReceived]

    def again(replica: ReplicaState, event: ResponseReceived) -> None:
        role = replica.role
        if event.correlation not in replica.outstanding and isinstance(role, Follower):
            event = ResponseReceived(role.fetching or 0, event.response)
        real(replica, event)  # type: ignore[arg-type]

    patch.setitem(replica_module._HANDLERS, ResponseReceived, again)


BY_SIMULATION: tuple[Break, ...] = (
    time_by_the_time_of_day,
    take_records_unchecked,
    read_by_a_lease,
    count_recent_fetches_only,
    take_an_answer_again,
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    time_by_the_time_of_day: frozenset({"wall clock", "crash leader"}),
    take_records_unchecked: frozenset({"damaged answers"}),
    read_by_a_lease: frozenset({"clock rates", "isolate leader"}),
    count_recent_fetches_only: frozenset({"clock jump"}),
    take_an_answer_again: frozenset({"doubled answers"}),
}
"""No other kind of fault shows them."""
