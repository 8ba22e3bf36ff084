"""A node whose read path is broken on purpose, for tests that must detect it: METADATAQUORUM_TEST_BREAK.

`ask-nobody`: a replica that does not lead answers linearizable reads from its own state, without asking the leader.
`no-round`: a leader answers reads, its own and others', without confirming its leadership.
The product has no such switch: this module patches it and then runs the node's own main.
"""

import os
import sys
from typing import Any

from quorum_node.raft import reads, remote_reads
from quorum_node.raft.leadership import Leader, PendingRead
from quorum_node.raft.outputs import ReadConfirmed
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.server.process.main import main

VARIABLE = "METADATAQUORUM_TEST_BREAK"


def read_locally() -> None:
    """Reads on followers and observers."""

    def at_once(replica: ReplicaState, read_id: int) -> None:
        replica.out.append(ReadConfirmed(read_id, replica.high_watermark))

    remote_reads.request_remote_read = at_once


def no_round() -> None:
    """Reads on a leader, which a zombie is as well."""
    real = reads._begin

    def at_once(replica: ReplicaState, leader: Leader, **who: Any) -> bool:
        if not leader.own_epoch_committed:
            return real(replica, leader, **who)
        reads._confirmed(replica, PendingRead(0, replica.high_watermark, **who))
        return False

    reads._begin = at_once


BREAKS = {"ask-nobody": read_locally, "no-round": no_round}

if __name__ == "__main__":
    BREAKS[os.environ[VARIABLE]]()
    sys.exit(main())
