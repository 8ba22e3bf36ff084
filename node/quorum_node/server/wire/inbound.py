"""Kafka requests that others send: taken apart for the replicas, their answers put together.

Which RPC is where; the modules of the RPCs know the rest. Knows no connections and no replicas.
"""

from collections.abc import Callable, Sequence

from quorum_node.protocol import elections as el
from quorum_node.protocol.alter_quorum import AlterQuorumRequest
from quorum_node.protocol.describe import DescribeQuorumRequest
from quorum_node.protocol.discover_brokers import DiscoverBrokersRequest
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest
from quorum_node.protocol.read_offset import ReadOffsetRequest
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from quorum_node.schema.schema import Message
from quorum_node.server.wire.alter_quorum import join_alter_quorum, split_alter_quorum
from quorum_node.server.wire.describe import Now, join_describe, split_describe
from quorum_node.server.wire.discover_brokers import join_discover, split_discover
from quorum_node.server.wire.epochs import join_begin, join_end, split_begin, split_end
from quorum_node.server.wire.fetch import join_fetch, split_fetch
from quorum_node.server.wire.partitions import Answer, Split
from quorum_node.server.wire.read_offset import join_read_offset, split_read_offset
from quorum_node.server.wire.snapshots import join_fetch_snapshot, split_fetch_snapshot
from quorum_node.server.wire.vote import join_vote, split_vote
from quorum_node.server.wire.voters import join_voter_change, split_voter_change


def split(body: Message) -> Split:
    """The core's requests in a Kafka request, in the order of its partitions."""
    match body:
        case FetchRequest():
            return split_fetch(body)
        case FetchSnapshotRequest():
            return split_fetch_snapshot(body)
        case el.VoteRequest():
            return split_vote(body)
        case el.BeginQuorumEpochRequest():
            return split_begin(body)
        case el.EndQuorumEpochRequest():
            return split_end(body)
        case DescribeQuorumRequest():
            return split_describe(body)
        case DiscoverBrokersRequest():
            return split_discover(body)
        case ReadOffsetRequest():
            return split_read_offset(body)
        case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
            return split_voter_change(body)
        case AlterQuorumRequest():
            return split_alter_quorum(body)
    raise AssertionError(f"no raft request: {type(body).__name__}")


def join(body: Message, answers: Sequence[Answer], now: Callable[[], Now]) -> Message:
    """The answer to a request; `answers` in the order of `split`."""
    match body:
        case FetchRequest():
            return join_fetch(body, answers)
        case FetchSnapshotRequest():
            return join_fetch_snapshot(body, answers)
        case el.VoteRequest():
            return join_vote(body, answers)
        case el.BeginQuorumEpochRequest():
            return join_begin(body, answers)
        case el.EndQuorumEpochRequest():
            return join_end(body, answers)
        case DescribeQuorumRequest():
            return join_describe(body, answers, now())
        case DiscoverBrokersRequest():
            return join_discover(answers)
        case ReadOffsetRequest():
            return join_read_offset(body, answers)
        case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
            return join_voter_change(body, answers[0])
        case AlterQuorumRequest():
            return join_alter_quorum(body, answers)
    raise AssertionError(f"no raft request: {type(body).__name__}")
