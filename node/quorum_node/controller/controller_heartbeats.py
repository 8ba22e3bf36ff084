"""ControllerHeartbeat: a controller reports its snapshots and learns whether it is its turn to
write one. PURE.

Owns the request. The rules are in `snapshot_turns.py`. Source: KIP-631, "ControllerHeartbeat".
"""

from quorum_node.controller.decision import Decision
from quorum_node.controller.snapshot_turns import SnapshotProgress
from quorum_node.controller.view import View
from quorum_node.protocol.controller_heartbeat import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.identity import ReplicaKey


def controller_heartbeat(view: View, request: ControllerHeartbeatRequest) -> Decision:
    """One heartbeat."""
    progress = SnapshotProgress(
        request.last_snapshot_offset, request.record_bytes, request.age_ms, request.writing
    )
    turns = view.snapshot_turns
    begin = turns is not None and turns.heartbeat(_reporter(view, request), progress, view.now_ms)
    return Decision(answer=ControllerHeartbeatResponse(error_code=0, start_snapshot=begin))


def _reporter(view: View, request: ControllerHeartbeatRequest) -> ReplicaKey:
    """The reporting replica.

    A node that sends no UUID is identified by its id, unless two replicas have it.
    """
    if request.directory_id is not None:
        return ReplicaKey(request.controller_id, request.directory_id)
    keys = {
        key
        for key in (*view.voters, *view.replicas().fetching)
        if key.id == request.controller_id and key.uuid is not None
    }
    return keys.pop() if len(keys) == 1 else ReplicaKey(request.controller_id)


def refuse_controller_heartbeat(
    request: ControllerHeartbeatRequest, error: ErrorCode, text: str
) -> ControllerHeartbeatResponse:
    """No snapshot may be started. The response has no field for a message."""
    return ControllerHeartbeatResponse(error_code=error, start_snapshot=False)
