"""Which Fetch is a replica's newest word on what its disk holds, and what follows if it holds less than before.

Owns `end_offset` of a Progress, upwards and downwards, and the proof that a replica went back. Must not know
what is committed, nor how a fetch is answered.

A fetch offset is an acknowledgement (KIP-595, "FetchRequest"), and its sender may come back with an older image of
its disk under the same UUID. So the newest fetch counts, also if it is lower. Requests may arrive late, twice or
out of order, though, also those of a process that is gone. What is newest is told by the rounds that answers
carry and fetches echo (`reads.py`). Every process begins with a fetch that echoes nothing: from then on, and from
any fetch that is lower, an echo counts upwards only if its round was told later. Its sender then processed that
answer, so it is alive, and what an earlier process sent never counts upwards again.

* Downwards every fetch counts at once. A late one costs its sender one more round trip and no safety.
* That the replica has lost something is reported only when a fetch in order confirms it, which is one that echoes a
  round told after the lower one. The first fetch of a process echoes nothing and may itself be late, so it confirms
  nothing, also if its sender has never echoed. Nobody is condemned for it.
* Replicas of stock Kafka echo nothing: of these the fetch that arrives last is the newest one, and each that is lower
  is reported, as in stock Kafka.
"""

from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import STOCK_SENDER, FetchRequest, WentBack
from quorum_node.raft.outputs import ReplicaWentBack
from quorum_node.raft.replica_state import ReplicaState


def acknowledge(
    replica: ReplicaState, leader: Leader, progress: Progress, request: FetchRequest
) -> bool:
    """Take the fetch offset as everything that the sender has; True if that is known to be in order.

    Call it before the echo of the request is noted in `progress`.
    """
    offset, answer = request.fetch_offset, request.answer
    if (answer < progress.counts_from or answer < 0) and _is_doubtful(leader, progress, request):
        _lower(leader, progress, offset)
        progress.counts_from = _fresh_round(leader)
        return False
    if offset < progress.end_offset:
        acknowledged = progress.end_offset
        _lower(leader, progress, offset)
        if answer < 0:  # stock Kafka's: nothing that comes later could confirm it
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
    """The sender's log parts from this leader's at `offset`, or needs a snapshot from there on.

    True if it seems to have lost records and only its next fetch can tell.
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
    """Whether a fetch that echoes nothing, or too old a round, may be out of order."""
    if request.answer >= 0:
        return True
    if request.answer == STOCK_SENDER:
        if progress.answer >= 0:  # other software runs under this key now
            progress.answer = -1
            progress.counts_from = _fresh_round(leader)
        return False
    if progress.last_fetch_ms is not None:  # another process: what the one before it sent is void
        progress.counts_from = _fresh_round(leader)
    went_back = progress.went_back is not None or progress.doubted >= 0
    return went_back or request.fetch_offset < progress.end_offset


def _lower(leader: Leader, progress: Progress, offset: int) -> None:
    """What it had is not counted any more; while `doubted`, it is not caught up either (`safety.py`)."""
    if offset >= progress.end_offset:
        return
    progress.doubted = max(progress.doubted, progress.end_offset)
    progress.end_offset = offset
    progress.counts_from = _fresh_round(leader)


def _fresh_round(leader: Leader) -> int:
    """A round that no answer has carried yet."""
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
