"""What keeps the quorum from before a recovery away from who has seen it, broken on purpose.

Same shape as `breaks.py`. Caught by one invariant alone (`test_recoveries.py`).
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import discovery, fetch_following, transitions
from quorum_node.raft.messages import CurrentLeader
from quorum_node.raft.replica_state import ReplicaState

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def follow_the_older_quorum(patch: Patch) -> None:
    """Who has seen a recovery goes by the epoch alone, and follows old voters that have lifted theirs above it.

    Would: have observers and clients believe two quorums of one cluster id, one after the other.
    """

    def never(replica: ReplicaState, leader: CurrentLeader) -> bool:
        return False

    for module in (discovery, fetch_following, transitions):
        patch.setattr(module, "is_of_older_quorum", never)


BY_SIMULATION: tuple[Break, ...] = (follow_the_older_quorum,)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    follow_the_older_quorum: frozenset({"recovery", "kill"}),
}
"""It matters after a recovery only."""
