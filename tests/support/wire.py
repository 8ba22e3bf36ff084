"""The translations of all RPCs, called by the message instead of by the RPC."""

from collections.abc import Hashable, Sequence

from quorum_node.protocol.api import Api
from quorum_node.raft import messages as raft
from quorum_node.schema.schema import Message
from quorum_node.server.wire.partitioned_rpc import Now, Parts
from quorum_node.server.wire.partitions import Answer, Split
from quorum_node.server.wire.rpcs import rpc_for, rpc_of


def split(body: Message) -> Split:
    return rpc_for(body).split(body)


def join(body: Message, answers: Sequence[Answer], now: Now) -> Message:
    return rpc_for(body).join(body, answers, now)


def to_wire(parts: Parts, version: int) -> Message:
    return rpc_of(parts[0][1]).to_wire(parts, version)


def can_carry(parts: Parts, version: int) -> bool:
    return rpc_of(parts[0][1]).can_carry(parts[0][1], version)


def shared_fields(request: raft.OutboundRequest) -> Hashable | None:
    return rpc_of(request).shared_fields(request)


def api_of(request: raft.OutboundRequest) -> Api:
    return rpc_of(request).api
