"""ListTransactions and DescribeTransactions of a broker that coordinates no transactions. PURE.

Administrators' tools send ListTransactions to every broker of a cluster. The answers equal those of a stock broker that coordinates
none.
Source: KIP-664; the rules of a stock broker (`TransactionCoordinator.handleListTransactions`, `handleDescribeTransactions`).
"""

from quorum_node.controller.authorization import Rights
from quorum_node.protocol.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from quorum_node.security.acl_terms import AclOperation, AclResource

_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def list_transactions(body: ListTransactionsRequest) -> ListTransactionsResponse:
    """An empty list of transactions, and the unknown states in the filter."""
    unknown = dict.fromkeys(each for each in body.state_filters if each not in _STATES)
    return ListTransactionsResponse(unknown_state_filters=tuple(unknown))


def describe_transactions(
    body: DescribeTransactionsRequest, rights: Rights
) -> DescribeTransactionsResponse:
    """An error for each transactional id."""
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            DescribedTransaction(error_code=_error_of(each, rights), transactional_id=each)
            for each in body.transactional_ids
        )
    )


def _error_of(transactional_id: str, rights: Rights) -> ErrorCode:
    if not rights.allows(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST
