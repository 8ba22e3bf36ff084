"""Histories in which a request raises an epoch by one step at most: larger ones come from answers.

No honest peer is rejected for good: after every fault there is a leader again, and every replica follows it
(liveness, as in all histories). With the real bound hardly any history has a gap that is too large.
"""

import pytest

from quorum_node.raft import epoch_bound
from quorum_simulation.run import Failure, run_seed

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K595-07")]


@pytest.mark.parametrize("seed", range(201, 207))
def test_short_set_of_histories_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30_001, 30_101))
def test_long_set_of_histories_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play(seed, monkeypatch)


def play(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_bound, "MAX_STEP", 1)
    result = run_seed(seed)
    assert not isinstance(result, Failure), str(result)
