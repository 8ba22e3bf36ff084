"""The replica states of DescribeQuorum (KIP-595, "DescribeQuorum")."""

import pytest

from quorum_node.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse, FetchRequest
from support.raft.cores import CLUSTER_ID, formed_cores


@pytest.mark.requirement("K595-22")
def test_fetch_alone_does_not_make_a_replica_caught_up() -> None:
    """A replica that fetches from the same old offset is live, and its last caught-up time does not change."""
    cores, one = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    cores.advance(1000)
    cores.crash(observer)
    end_offset = one.replica.log_end
    cores.propose(one, "a", "b")
    cores.advance(100)
    first = cores.request(one, DescribeQuorumRequest())
    assert isinstance(first, DescribeQuorumResponse)
    (before,) = first.observers
    cores.advance(2500)
    cores.request(one, FetchRequest(CLUSTER_ID, observer.key, 1, end_offset, 1, max_wait_ms=0))
    second = cores.request(one, DescribeQuorumRequest())
    assert isinstance(second, DescribeQuorumResponse)
    (after,) = second.observers
    assert after.last_fetch_ms == cores.now_ms
    assert after.last_caught_up_ms == before.last_caught_up_ms
    assert (after.log_end_offset, after.caught_up) == (end_offset, False)
