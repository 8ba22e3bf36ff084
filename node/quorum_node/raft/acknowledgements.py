"""Acknowledgements: which Fetch of a replica is the newest, and what follows if its offset is lower
than before.

Owns `end_offset` of a Progress, upwards and downwards, and the proof that a replica lost records.
Must not know what is committed, nor how a fetch is answered.

A fetch offset is an acknowledgement (KIP-595, "FetchRequest"). A replica may restart with an older
image of its disk under the same UUID, so the newest fetch counts even if its offset is lower. But
requests may arrive late, twice or out of order, also requests of a process that has ended. The
answer rounds that answers carry and fetches echo (`reads.py`) define what is newest. The first
fetch of every process echoes no round. From that fetch on, and from any fetch with a lower offset,
a higher offset is accepted only if the fetch echoes a round that was sent later. Then its sender
has processed that answer, so it is alive, and requests of an earlier process can no longer raise
the offset.

* A lower offset is accepted at once. A late fetch costs its sender one more round trip, and no
safety.
* A loss of records is reported only when a fetch in order confirms it: one that echoes a round sent
after the lower fetch. The first fetch of a process may itself be late, so it confirms nothing.
* Replicas of stock Kafka echo no rounds. Their last fetch to arrive counts as the newest, and each
lower one is reported, as in stock Kafka.
"""

from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import STOCK_SENDER, FetchRequest, WentBack
from quorum_node.raft.outputs import ReplicaWentBack
from quorum_node.raft.replica_state import ReplicaState


def acknowledge(
    replica: ReplicaState, leader: Leader, progress: Progress, request: FetchRequest
) -> bool:
    """Take the fetch offset as the sender's acknowledgement; True if the fetch is known to be in order.

    Call it before the echoed round is stored in `progress`.
    """
    offset, answer = request.fetch_offset, request.answer
    if (answer < progress.counts_from or answer < 0) and _is_doubtful(leader, progress, request):
        _lower(leader, progress, offset)
        progress.counts_from = _fresh_round(leader)
        return False
    if offset < progress.end_offset:
        acknowledged = progress.end_offset
        _lower(leader, progress, offset)
        if answer < 0:  # a stock replica: no later fetch can confirm it
            progress.doubted = -1
            _report(replica, progress, acknowledged, offset)
        return True
    if progress.doubted >= 0:
        if offset < progress.doubted:
            _report(replica, progress, progress.doubted, offset)
        progress.doubted = -1
    progress.end_offset = offset
    return True


def holds_at_most(
    replica: ReplicaState, leader: Leader, progress: Progress, request: FetchRequest, offset: int
) -> bool:
    """Note that the sender's log diverges from the leader's at `offset`, or needs a snapshot from there on.

    True if the sender seems to have lost records and only its next fetch can confirm that.
    """
    acknowledged = progress.end_offset
    in_order = request.answer >= progress.counts_from
    if offset < acknowledged:
        _lower(leader, progress, offset)
        if request.answer == STOCK_SENDER:
            progress.doubted = -1
            _report(replica, progress, acknowledged, offset)
    elif in_order and offset < progress.doubted:
        _report(replica, progress, progress.doubted, offset)
        progress.doubted = -1
    return progress.doubted >= 0


def _is_doubtful(leader: Leader, progress: Progress, request: FetchRequest) -> bool:
    """Whether a fetch that echoes no round, or too old a round, may be out of order."""
    if request.answer >= 0:
        return True
    if request.answer == STOCK_SENDER:
        if progress.answer >= 0:  # other software runs under this key now
            progress.answer = -1
            progress.counts_from = _fresh_round(leader)
        return False
    # a new process: requests of the process before it are void
    if progress.last_fetch_ms is not None:
        progress.counts_from = _fresh_round(leader)
    went_back = progress.went_back is not None or progress.doubted >= 0
    return went_back or request.fetch_offset < progress.end_offset


def _lower(leader: Leader, progress: Progress, offset: int) -> None:
    """Lower the acknowledged offset.

    While `doubted` is set, the replica does not count as caught up (`safety.py`).
    """
    if offset >= progress.end_offset:
        return
    progress.doubted = max(progress.doubted, progress.end_offset)
    progress.end_offset = offset
    progress.counts_from = _fresh_round(leader)


def _fresh_round(leader: Leader) -> int:
    """A new answer round, which no answer has carried yet."""
    if leader.round_sent:
        leader.answer_round += 1
        leader.round_sent = False
    return leader.answer_round


def _report(
    replica: ReplicaState, progress: Progress, acknowledged_offset: int, offset: int
) -> None:
    progress.last_caught_up_ms = None
    progress.went_back = WentBack(acknowledged_offset, offset, replica.now_ms)
    replica.out.append(
        ReplicaWentBack(progress.key, acknowledged_offset, offset, replica.high_watermark)
    )
