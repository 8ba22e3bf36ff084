"""Why a part of a request was refused: code and message for the caller. PURE."""

from dataclasses import dataclass

from quorum_node.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Problem:
    """An expected outcome, not a bug: nothing of that part of the request is decided."""

    code: ErrorCode
    text: str
