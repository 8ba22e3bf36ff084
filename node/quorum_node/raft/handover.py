"""Ends of leadership: resignation, graceful stop, removal, failed storage.

Owns EndQuorumEpoch on the sending side. Must not know what receivers do with it.
Source: KIP-595, "EndQuorumEpoch" (K595-12): successors in the order of their replicated offsets,
best effort, never retried.

A handover first waits, for a bounded time, until everything appended is committed. Then the first
successor needs no more records from the old leader.
"""

from quorum_node.raft import reads, safety
from quorum_node.raft.commit import durable_end_of
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Handover, Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchResponse,
    ResignRequest,
    ResignResponse,
)
from quorum_node.raft.outputs import HaltReason, ProposalFailed
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Candidate
from quorum_node.raft.transitions import become_resigned, leave_leadership, observe_leader
from quorum_node.records.identity import ReplicaKey


def handle_resign(replica: ReplicaState, request_id: int, request: ResignRequest) -> None:
    """Resign request: hand over leadership, preferring `successor`."""
    leader = replica.role
    current = replica.current_leader()
    if not isinstance(leader, Leader) or replica.halted:
        replica.respond(request_id, ResignResponse(RaftError.NOT_QUORUM_LEADER, current))
        return
    if not electable(replica, leader):
        message = "there is no other voter"
        if successors(replica, leader):
            message = "every other voter is a witness, which can't become leader"
        replica.respond(request_id, ResignResponse(RaftError.INVALID_REQUEST, current, message))
        return
    if request.successor is not None and request.successor not in replica.other_voters():
        message = f"{request.successor} is not another voter"
        replica.respond(request_id, ResignResponse(RaftError.VOTER_NOT_FOUND, current, message))
        return
    if request.successor is not None and safety.is_witness(replica, leader, request.successor):
        message = f"{request.successor} is a witness, which can't become leader"
        replica.respond(request_id, ResignResponse(RaftError.INVALID_REQUEST, current, message))
        return
    if leader.handover is not None:
        message = "a handover is in progress"
        replica.respond(request_id, ResignResponse(RaftError.INVALID_REQUEST, current, message))
        return
    start(replica, leader, request_id, request.successor)


def start(
    replica: ReplicaState, leader: Leader, request_id: int | None, successor: ReplicaKey | None
) -> None:
    """Refuse new proposals, and end the epoch when everything appended is committed."""
    if leader.handover is None:
        wait_ms = replica.config.election_timeout_ms / 2
        leader.handover = Handover(replica.now_ms + wait_ms, request_id, successor)
    finish_if_ready(replica, leader)


def finish_if_ready(replica: ReplicaState, leader: Leader) -> None:
    """End the epoch when nothing is pending or the maximum wait is over."""
    pending = leader.handover
    if pending is None:
        return
    behind = replica.high_watermark < replica.log_end
    if pending.successor is not None:
        behind = behind or durable_end_of(replica, leader, pending.successor) < replica.log_end
    if behind and replica.now_ms < pending.deadline_ms:
        return
    end_epoch(replica, leader)


def end_epoch(replica: ReplicaState, leader: Leader) -> None:
    """Send EndQuorumEpoch once to every other voter, and resign."""
    preferred = successors(replica, leader)
    become_resigned(replica)
    _send_end(replica, replica.key.id, preferred)


def successors(replica: ReplicaState, leader: Leader) -> tuple[ReplicaKey, ...]:
    """Other voters, the most caught up first; a preferred successor before all.

    Witnesses come last. They start no election, but a voter that is not in the list refuses the
    request.
    """
    wanted = leader.handover.successor if leader.handover is not None else None
    voters = replica.voters.latest.voters
    keys = [key for key in replica.other_voters() if voters.is_newest(key)]

    def rank(key: ReplicaKey) -> tuple[bool, bool, int]:
        end_offset = durable_end_of(replica, leader, key)
        return key == wanted, not safety.is_witness(replica, leader, key), end_offset

    keys.sort(key=rank, reverse=True)
    return tuple(keys)


def electable(replica: ReplicaState, leader: Leader) -> list[ReplicaKey]:
    """Successors that may start an election, as far as this leader knows."""
    return [
        key for key in successors(replica, leader) if not safety.is_witness(replica, leader, key)
    ]


def may_take_over(replica: ReplicaState, leader: Leader) -> bool:
    """Whether a successor could be elected at once: it may start an election and has the leader's records."""
    return any(
        progress is not None and safety.is_caught_up(replica, progress)
        for progress in map(leader.progress.get, electable(replica, leader))
    )


def note_space(replica: ReplicaState, *, is_low: bool) -> None:
    """The disk is low now, or has space again: leadership may be handed over for space once more."""
    replica.hands_over_for_space = is_low and not replica.disk_low


def should_not_lead(replica: ReplicaState) -> bool:
    """Whether another voter should lead.

    Instead of a witness, of a voter with a newer key of its id beside it (others know a leader by its
    id), and of one that refuses writes because its disk is low. Others do not report how much space
    they have. So leadership is handed over for space once, until there is space again.
    """
    return replica.config.witness or replica.has_newer_key or replica.hands_over_for_space


def hand_over_if_possible(replica: ReplicaState, leader: Leader) -> None:
    """Hand over as soon as another voter can lead."""
    if leader.own_epoch_committed and may_take_over(replica, leader):
        replica.hands_over_for_space = False
        start(replica, leader, None, None)


def request_shutdown(replica: ReplicaState) -> None:
    """Graceful stop: a leader hands over, a candidate announces that it gives up, other roles just stop."""
    if replica.stopping or replica.halted:
        return
    replica.stopping = True
    replica.stop_deadline_ms = replica.now_ms + replica.config.election_timeout_ms
    role = replica.role
    if isinstance(role, Leader) and replica.other_voters():
        start(replica, role, None, None)
        return
    if isinstance(role, Leader):
        leave_leadership(replica, replica.current_leader())
    if isinstance(role, Candidate):
        newest = replica.voters.latest.voters.is_newest
        _send_end(replica, NO_LEADER, tuple(k for k in replica.other_voters() if newest(k)))
    replica.halt(HaltReason.SHUTDOWN, "asked to stop")


def storage_failed(replica: ReplicaState, detail: str, reason: HaltReason) -> None:
    """Stop acknowledging. A leader announces its resignation once, and all waiting requests fail."""
    if replica.halted:
        return
    role = replica.role
    replica.stop_acknowledging()
    if isinstance(role, Leader):
        preferred = successors(replica, role)
        no_leader = replica.current_leader()
        no_leader = type(no_leader)(NO_LEADER, no_leader.leader_epoch)
        for parked in role.parked.values():
            replica.respond(
                parked.request_id, FetchResponse(RaftError.NOT_QUORUM_LEADER, no_leader)
            )
        for proposal in role.proposals:
            replica.out.append(ProposalFailed(proposal.proposal_id, RaftError.STORAGE_FAILED))
        reads.fail_reads(replica, role, RaftError.STORAGE_FAILED, no_leader)
        role.parked, role.change = {}, None
        role.alterations.clear()
        role.proposals.clear()
        _send_end(replica, replica.key.id, preferred)
    replica.end(reason, detail)


def handle_end_response(
    replica: ReplicaState, sent: Outstanding, response: EndQuorumEpochResponse
) -> None:
    """Best effort: only a newer epoch matters."""
    observe_leader(replica, response.leader, sent.peer_id, error=response.error)


def _send_end(replica: ReplicaState, leader_id: int, preferred: tuple[ReplicaKey, ...]) -> None:
    for key in replica.other_voters():
        endpoint = replica.endpoint_of(key)
        if endpoint is not None:
            request = EndQuorumEpochRequest(
                replica.reported_cluster_id,
                leader_id,
                replica.epoch,
                preferred,
                replica.controller_endpoint,
            )
            replica.send(endpoint, request, key)
