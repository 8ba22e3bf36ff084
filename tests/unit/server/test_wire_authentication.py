"""SASL and delegation tokens are refused; tests/interop/test_bad_input.py holds the answers against stock Kafka's."""

import pytest

from quorum_node.controller.view import Caller
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from quorum_node.server.wire.authentication import refuse, refuses

ALICE = Caller("User:alice", "127.0.0.1", "CONTROLLER")


def test_every_authentication_api_is_rejected_and_no_other() -> None:
    for api in APIS.values():
        expected = api.name.startswith("Sasl") or api.name.endswith("DelegationToken")
        assert refuses(api.request.__new__(api.request)) == expected, api.name
    assert not refuses(
        EnvelopeRequest(request_data=b"", request_principal=None, client_host_address=b"")
    )
    assert not refuses(None)


def test_sasl_requests_return_illegal_state_on_this_listener() -> None:
    answer = refuse(SaslHandshakeRequest(mechanism="PLAIN"), ALICE, forwarded=False)
    assert answer == SaslHandshakeResponse(error_code=34)


@pytest.mark.parametrize(("forwarded", "error", "time_ms"), [(False, 64, -1), (True, 61, 0)])
def test_delegation_token_apis_are_rejected_by_controllers_and_disabled_on_brokers(
    forwarded: bool, error: int, time_ms: int
) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    assert refuse(request, ALICE, forwarded=forwarded) == CreateDelegationTokenResponse(
        error_code=error,
        principal_type="User",
        principal_name="bob",
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
