"""AllocateProducerIds: blocks of ids for idempotent and transactional producers (KIP-730). PURE.

Every id is allocated once: the start of the next block is committed before a block is returned.
"""

from quorum_node.controller.broker_epochs import epoch_problem
from quorum_node.controller.decision import Decision
from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from quorum_node.records.metadata import ProducerIdsRecord

BLOCK_SIZE = 1000
_MAX_ID = 2**63 - 1


def allocate_producer_ids(view: View, request: AllocateProducerIdsRequest) -> Decision:
    """The next block."""
    problem = epoch_problem(view, request.broker_id, request.broker_epoch)
    if problem is not None:
        return Decision(answer=refuse_producer_ids(request, problem, ""))
    start = view.image.producer_ids.next_producer_id or 0
    if start > _MAX_ID - BLOCK_SIZE:
        return Decision(answer=refuse_producer_ids(request, ErrorCode.UNKNOWN_SERVER_ERROR, ""))
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=start + BLOCK_SIZE,
    )
    answer = AllocateProducerIdsResponse(
        error_code=0, producer_id_start=start, producer_id_len=BLOCK_SIZE
    )
    return Decision((record,), answer)


def refuse_producer_ids(
    request: AllocateProducerIdsRequest, error: ErrorCode, text: str
) -> AllocateProducerIdsResponse:
    """No block."""
    return AllocateProducerIdsResponse(error_code=error)
