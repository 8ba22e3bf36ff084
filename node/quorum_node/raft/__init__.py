"""The sans-I/O Raft core of one partition: events in, outputs out (pure).

`Replica(config, key, quorum_state, log_state, jitter, wall_clock_ms).step(event, now_ms)` returns the
outputs of one event, in the order in which they must be executed; `next_deadline_ms()` returns the
time of the next TimerExpired; `describe(now_ms)` is a snapshot. The first TimerExpired starts the replica.
Nothing here reads a clock, a file or a socket: `server/driver.py` executes outputs, `server/wire/`
translates messages. Types: `config`, `events`, `outputs`, `messages`, `errors`, `quorum_state`,
`log_state`, `description`, `roles`.
Source: KIP-595, KIP-650 (pre-vote, reads), KIP-853 (replica keys, voter changes).
"""

from quorum_node.raft.config import RaftConfig
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.log_state import LogState
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.replica import Replica
from quorum_node.raft.roles import RoleName

__all__ = [
    "LogState",
    "QuorumState",
    "RaftConfig",
    "RaftError",
    "Replica",
    "ReplicaDescription",
    "RoleName",
]
