"""Code that holds only where clocks agree and answers arrive as they were sent.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.raft import fetch_following, reads
from quorum_node.raft.leadership import Leader
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.batches import PREFIX_BYTES, Batch, read_header

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]
LEASE_MS = 900.0
"""Shorter than any follower waits for its leader, by clocks that agree."""


def read_under_a_lease(patch: Patch) -> None:
    """A leader that a majority fetched from within 900 ms of its own clock answers reads without asking anybody.

    Would: answer with an old value once a faster clock has elected another leader.
    """
    real = reads._begin

    def leased(replica: ReplicaState, leader: Leader, **asked: Any) -> bool:
        hurry = real(replica, leader, **asked)
        heard_ms = reads.state_as_of_ms(replica)
        if heard_ms is not None and heard_ms > replica.now_ms - LEASE_MS:
            while leader.own_epoch_committed and leader.reads:
                reads._confirmed(replica, leader.reads.popleft())
        return hurry

    patch.setattr(reads, "_begin", leased)


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


BY_SIMULATION: tuple[Break, ...] = (read_under_a_lease, take_records_unchecked)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    read_under_a_lease: frozenset({"clock rates", "partition"}),
    take_records_unchecked: frozenset({"damaged answers"}),
}
"""No other kind of fault shows them."""
