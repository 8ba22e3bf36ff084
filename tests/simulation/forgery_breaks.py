"""Code that believes what anybody says; see `faults/forgeries.py`.

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
        patch.setattr(module, "within_step", lambda known, told: True)


def follow_whoever_says_that_he_leads(patch: Patch) -> None:
    """Every BeginQuorumEpoch of a newer epoch is followed.

    Would: make followers leave the leader that they hear, for one that does not exist.
    """
    patch.setattr(begin_end_epoch, "_is_believed", lambda replica, claimed, endpoint: True)


def obey_every_end(patch: Patch) -> None:
    """EndQuorumEpoch ends the epoch that it names, whoever sent it.

    Would: let anybody depose a live leader, again and again.
    """
    real = begin_end_epoch._end_error

    def obedient(replica: ReplicaState, request: Any) -> RaftError:
        error = real(replica, request)
        return RaftError.NONE if request.leader_epoch == replica.epoch else error

    patch.setattr(begin_end_epoch, "_end_error", obedient)


BY_SIMULATION: tuple[Break, ...] = (take_any_epoch, follow_whoever_says_that_he_leads)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        obey_every_end,
        "tests/unit/raft/test_raft_epochs.py::test_unknown_leader_cannot_end_the_epoch",
    ),
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    take_any_epoch: frozenset({"forged votes"}),
    follow_whoever_says_that_he_leads: frozenset({"forged leaders"}),
}
"""No other kind of fault shows them."""
