"""Work that a replica has begun and not finished: a read, a search for the leader, a claim, a download.

Owns the data. Must not know the rules that use it.
"""

from dataclasses import dataclass

from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import CurrentLeader
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(slots=True)
class RemoteRead:
    """A read on a replica that is not the leader.

    `question`: correlation of the ReadOffset in flight to the leader of `asked_epoch`. `offset`:
    the leader's response. `failure`: why the first request got no offset.
    """

    read_id: int
    deadline_ms: float
    question: int | None = None
    asked_epoch: int = -1
    questions: int = 0
    retry_ms: float = 0.0
    offset: int | None = None
    failure: RaftError | None = None


@dataclass(slots=True)
class Discovery:
    """Search for the leader: one Fetch at a time, round robin over voters and bootstrap servers."""

    next_index: int = 0
    failures: int = 0
    outstanding: int | None = None
    deadline_ms: float = 0.0

    def restart(self, at_ms: float) -> None:
        """Restart the search at `at_ms` with the next target: the last one may have given a wrong answer."""
        self.failures, self.outstanding, self.deadline_ms = 0, None, at_ms

    def resume(self) -> None:
        """Continue with the next target at the present pace: the last one named a leader that did not respond as such."""
        self.outstanding = None


@dataclass(slots=True)
class Claim:
    """A leader's unverified claim that it moved (`inquiry.py`). `questions`: correlations in flight."""

    leader: CurrentLeader
    questions: set[int]


@dataclass(slots=True)
class Partial:
    """A snapshot in download; `position` bytes of it are in a file.

    `source`: leader (id, epoch) that sent the last part, None: found at start. `finishing`:
    complete, and being verified.
    """

    id: SnapshotId
    part_bytes: int
    position: int = 0
    size_bytes: int | None = None
    checksum: int | None = None
    source: tuple[int, int] | None = None
    finishing: bool = False

    def restart(self) -> None:
        """Restart the download: the bytes received so far belong to another snapshot file."""
        self.position, self.size_bytes, self.checksum, self.source = 0, None, None, None
