"""ListTransactions and DescribeTransactions of a broker that coordinates none: as a stock broker answers them."""

from quorum_node.controller.authorization import UNRESTRICTED
from quorum_node.protocol.describe_transactions import DescribeTransactionsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_transactions import ListTransactionsRequest
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.server.broker.transactions_api import describe_transactions, list_transactions


class OnlyMine:
    """May describe the transactional id `mine`."""

    def allows(self, operation: AclOperation, resource: AclResource, name: str = "") -> bool:
        asked = (operation, resource, name)
        return asked == (AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, "mine")


def test_broker_without_a_coordinator_lists_no_transaction() -> None:
    answer = list_transactions(ListTransactionsRequest())
    assert (answer.error_code, answer.transaction_states) == (0, ())
    assert answer.unknown_state_filters == ()


def test_unknown_states_in_the_filter_are_reported() -> None:
    asked = ListTransactionsRequest(state_filters=("Ongoing", "Nonsense", "ongoing", "Nonsense"))
    assert list_transactions(asked).unknown_state_filters == ("Nonsense", "ongoing")


def test_described_transactions_have_another_coordinator() -> None:
    asked = DescribeTransactionsRequest(transactional_ids=("mine", "", "other"))
    found = describe_transactions(asked, UNRESTRICTED).transaction_states
    assert [(each.transactional_id, each.error_code) for each in found] == [
        ("mine", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.INVALID_REQUEST),
        ("other", ErrorCode.NOT_COORDINATOR),
    ]


def test_transactional_id_that_the_caller_may_not_describe_is_refused() -> None:
    asked = DescribeTransactionsRequest(transactional_ids=("mine", "other"))
    found = describe_transactions(asked, OnlyMine()).transaction_states
    assert [each.error_code for each in found] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ]
