"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: translate between the core's messages and Kafka's.

Kafka's messages have no partition and concern the first one; a private tagged field names another partition.
"""

from quorum_node.protocol import apis
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    CurrentLeader,
    KRaftVersionFeature,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterListener,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.records.identity import Endpoint, replica_key
from quorum_node.schema.schema import Message
from quorum_node.server.wire.errors import raft_error, wire_error
from quorum_node.server.wire.partitioned_rpc import SinglePartitionRpc
from quorum_node.server.wire.partitions import Answer, PartitionKey, metadata_partition

DEFAULT_VOTER_TIMEOUT_MS = 30_000
_ACK_WHEN_COMMITTED_SINCE = 1

VoterChange = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


def _asked(body: VoterChange) -> tuple[PartitionKey, raft.Request]:
    return metadata_partition(body.partition), _voter_change(body)


def _voter_change(body: VoterChange) -> raft.Request:
    key = replica_key(body.voter_id, body.voter_directory_id)
    expected = None
    if body.expected_offset >= 0:
        expected = raft.VotersPosition(body.expected_offset, body.expected_epoch)
    if isinstance(body, UpdateRaftVoterRequest):
        feature = body.kraft_version_feature
        return raft.UpdateVoterRequest(
            cluster_id=body.cluster_id,
            voter=key,
            endpoints=_endpoints(body.listeners),
            timeout_ms=DEFAULT_VOTER_TIMEOUT_MS,
            current_leader_epoch=body.current_leader_epoch,
            min_kraft_version=feature.min_supported_version,
            max_kraft_version=feature.max_supported_version,
            expected=expected,
        )
    if isinstance(body, RemoveRaftVoterRequest):
        return raft.RemoveVoterRequest(body.cluster_id, key, DEFAULT_VOTER_TIMEOUT_MS, expected)
    return raft.AddVoterRequest(
        cluster_id=body.cluster_id,
        voter=key,
        endpoints=_endpoints(body.listeners),
        timeout_ms=max(body.timeout_ms, 0),
        expected=expected,
        count_newcomer=body.count_newcomer,
        ack_when_committed=body.ack_when_committed,
    )


def _endpoints(listeners: tuple[VoterListener, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(entry.name, entry.host, entry.port) for entry in listeners)


def answer_voter_change(body: Message, answer: Answer) -> Message:
    """The answer to AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter."""
    if isinstance(answer, raft.VoterChangeResponse):
        error = wire_error(answer.error)
        text = answer.message or answer.error.value
        leader = answer.leader
    else:
        error = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        text, leader = error.name, raft.CurrentLeader(raft.NO_LEADER, -1)
    message = None if error is ErrorCode.NONE else text
    endpoint = leader.endpoint
    current = CurrentLeader(
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        host=endpoint.host if endpoint else "",
        port=endpoint.port if endpoint else 0,
    )
    if isinstance(body, UpdateRaftVoterRequest):
        return UpdateRaftVoterResponse(error_code=error, current_leader=current)
    kind = (
        AddRaftVoterResponse if isinstance(body, AddRaftVoterRequest) else RemoveRaftVoterResponse
    )
    return kind(error_code=error, error_message=message, current_leader=current)


def _update_request(partition: int, request: raft.UpdateVoterRequest) -> UpdateRaftVoterRequest:
    """The request that a voter sends to the leader after its endpoints have changed."""
    return UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.current_leader_epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.uuid,
        listeners=_listeners(request.endpoints),
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=request.min_kraft_version,
            max_supported_version=request.max_kraft_version,
        ),
        partition=partition,
    )


def _listeners(endpoints: tuple[Endpoint, ...]) -> tuple[VoterListener, ...]:
    return tuple(VoterListener(name=e.name, host=e.host, port=e.port) for e in endpoints)


def _add_request(partition: int, request: raft.AddVoterRequest) -> AddRaftVoterRequest:
    """The request of an observer to the leader to become a voter (needs version 1)."""
    return AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.uuid,
        listeners=_listeners(request.endpoints),
        ack_when_committed=request.ack_when_committed,
        partition=partition,
    )


def _add_answer(body: AddRaftVoterResponse) -> raft.VoterChangeResponse:
    """The core's form of the leader's answer. In stock Kafka the answer does not name the leader."""
    error = raft_error(body.error_code)
    return raft.VoterChangeResponse(error, _leader(body.current_leader), body.error_message or "")


def _update_answer(body: UpdateRaftVoterResponse) -> raft.VoterChangeResponse:
    """The core's form of the leader's answer to UpdateRaftVoter."""
    return raft.VoterChangeResponse(raft_error(body.error_code), _leader(body.current_leader))


def _leader(told: CurrentLeader) -> raft.CurrentLeader:
    endpoint = Endpoint(CONTROLLER, told.host, told.port) if told.host else None
    return raft.CurrentLeader(told.leader_id, told.leader_epoch, endpoint)


def _can_carry_add(request: raft.AddVoterRequest, version: int) -> bool:
    return version >= _ACK_WHEN_COMMITTED_SINCE or request.ack_when_committed


ADD_RAFT_VOTER = SinglePartitionRpc(
    apis.ADD_RAFT_VOTER,
    _asked,
    answer_voter_change,
    core_request=raft.AddVoterRequest,
    request=_add_request,
    answer_in=_add_answer,
    can_carry=_can_carry_add,
)
REMOVE_RAFT_VOTER = SinglePartitionRpc(apis.REMOVE_RAFT_VOTER, _asked, answer_voter_change)
UPDATE_RAFT_VOTER = SinglePartitionRpc(
    apis.UPDATE_RAFT_VOTER,
    _asked,
    answer_voter_change,
    core_request=raft.UpdateVoterRequest,
    request=_update_request,
    answer_in=_update_answer,
)
