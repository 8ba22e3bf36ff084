"""ControllerHeartbeat: a controller reports its snapshots and hears whether it is its turn to write one. PURE.

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


def controller_heartbeat(view: View, request: ControllerHeartbeatRequest) -> Decision:
    """One heartbeat."""
    progress = SnapshotProgress(
        request.last_snapshot_offset, request.record_bytes, request.age_ms, request.writing
    )
    turns = view.snapshot_turns
    begin = turns is not None and turns.heartbeat(request.controller_id, progress, view.now_ms)
    return Decision(answer=ControllerHeartbeatResponse(error_code=0, start_snapshot=begin))


def refuse_controller_heartbeat(
    request: ControllerHeartbeatRequest, error: ErrorCode, text: str
) -> ControllerHeartbeatResponse:
    """Nothing begins; the answer has no room for words."""
    return ControllerHeartbeatResponse(error_code=error, start_snapshot=False)
