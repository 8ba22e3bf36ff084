"""Why a part of a request can't be carried out: the code and the text that its caller gets. PURE."""

from dataclasses import dataclass

from quorum_node.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Problem:
    """An expected outcome, not a fault: nothing of that part of the request is decided."""

    code: ErrorCode
    text: str
