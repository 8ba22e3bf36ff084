"""Why a broker is not registered, and what to do.

Owns the texts. The response of the controller has an error code and no message.
"""

from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message

_WHAT_TO_DO = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another broker, a voter or a controller has this node.id: give this broker an id of its own",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "these controllers are of another cluster than this broker: check controller.quorum.bootstrap.servers, and cluster.id in meta.properties",
    ErrorCode.INVALID_REGISTRATION: "listeners, features or log directories of this broker are not accepted: listener names and features may occur only once, and every log directory needs a directory.id of its own in meta.properties",
    ErrorCode.UNSUPPORTED_VERSION: "this broker does not support a finalized feature level of the cluster: see `kafka-features.sh describe` and its supported ranges",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this broker's certificate or user lacks CLUSTER_ACTION on the cluster",
}


def reason_of(outcome: Message | FailureReason) -> str:
    """Text for the log. `outcome`: a response with an error code, or why there was none."""
    if isinstance(outcome, FailureReason):
        return f"the request to the active controller ended: {outcome.value}"
    code = getattr(outcome, "error_code", 0)
    if code not in ErrorCode.__members__.values():
        return f"the active controller answered {code}"
    error = ErrorCode(code)
    advice = _WHAT_TO_DO.get(error)
    return f"the active controller answered {error.name}" + (f": {advice}" if advice else "")
