"""Code that accepts every claim; see `faults/forgeries.py`.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.raft import begin_end_epoch, fetch_serving, vote
from quorum_node.raft.errors import RaftError
from quorum_node.raft.replica_state import ReplicaState

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def take_any_epoch(patch: Patch) -> None:
    """A request raises a known epoch as far as it likes.

    Would: let one message take the epochs of all elections to come.
    """
    for module in (vote, begin_end_epoch, fetch_serving):
        patch.setattr(module, "within_step", lambda known, reported: True)


def follow_every_begin_quorum_epoch(patch: Patch) -> None:
    """Every BeginQuorumEpoch of a newer epoch is followed.

    Would: make followers leave their live leader, for one that does not exist.
    """
    patch.setattr(begin_end_epoch, "_is_believed", lambda replica, claimed, endpoint: True)


def accept_every_end_quorum_epoch(patch: Patch) -> None:
    """EndQuorumEpoch ends its epoch, whichever node sent it.

    Would: let any node depose a live leader repeatedly.
    """
    real = begin_end_epoch._end_error

    def broken(replica: ReplicaState, request: Any) -> RaftError:
        error = real(replica, request)
        return RaftError.NONE if request.leader_epoch == replica.epoch else error

    patch.setattr(begin_end_epoch, "_end_error", broken)


BY_SIMULATION: tuple[Break, ...] = (take_any_epoch, follow_every_begin_quorum_epoch)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        accept_every_end_quorum_epoch,
        "tests/unit/raft/test_raft_epochs.py::test_unknown_leader_cannot_end_the_epoch",
    ),
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    take_any_epoch: frozenset({"forged votes"}),
    follow_every_begin_quorum_epoch: frozenset({"forged leaders"}),
}
"""No other kind of fault shows them."""
