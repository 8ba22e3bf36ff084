"""Requests in Envelopes, through a connection of the listener: what is let in, and how an answer goes back (KIP-590)."""

import asyncio
from collections.abc import Callable

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import DESCRIBE_CONFIGS, ELECT_LEADERS, ENVELOPE
from quorum_node.protocol.configs import DescribeConfigsRequest
from quorum_node.protocol.create_topics import CreatableTopicResult, CreateTopicsResponse
from quorum_node.protocol.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from quorum_node.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.envelope_principal import DefaultPrincipal, encode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.schema.schema import Message
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.requests.forwarded import ForwardedRequest, says, unwrap
from support.listener_settings import listener_settings

ALICE = encode_principal(DefaultPrincipal(type="User", name="alice", token_authenticated=False))
ADDRESS = bytes((10, 0, 0, 7))
INSIDE = ElectLeadersRequest(topic_partitions=None)


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)


def framed(api: Api, body: Message, correlation_id: int = 7) -> bytes:
    return encode_request(api, api.max_version, correlation_id, "a client", body)[SIZE_BYTES:]


def forwarded(
    envelope: EnvelopeRequest, answer: Callable[[ForwardedRequest], None]
) -> EnvelopeResponse:
    """The response to the broker, if `answer` handles the request in the envelope."""

    def handle(inbound: InboundRequest) -> None:
        body = inbound.request.body
        assert isinstance(body, EnvelopeRequest)
        found = unwrap(inbound, body)
        if isinstance(found, ForwardedRequest):
            answer(found)
        else:
            inbound.reply(EnvelopeResponse(error_code=found))

    async def play() -> bytes:
        listener = KafkaListener(
            listener_settings(), handle, Metrics(), lambda why, detail, peer: None
        )
        connection, wire = KafkaConnection(listener), Wire()
        connection.connection_made(wire)
        connection.data_received(encode_request(ENVELOPE, 0, 1, "a broker", envelope))
        return wire.written

    received = decode_response(ENVELOPE, 0, asyncio.run(play())[SIZE_BYTES:])
    assert isinstance(received, EnvelopeResponse)
    return received


def envelope(
    data: bytes, principal: bytes | None = ALICE, address: bytes = ADDRESS
) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )


def test_forwarded_request_uses_the_client_principal_and_wraps_the_response() -> None:
    reported = ElectLeadersResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, replica_election_results=()
    )

    def answer(request: ForwardedRequest) -> None:
        assert request.request.body == INSIDE
        assert (request.caller.principal, request.caller.host) == ("User:alice", "10.0.0.7")
        request.reply(reported)

    received = forwarded(envelope(framed(ELECT_LEADERS, INSIDE)), answer)
    assert received.error_code == ErrorCode.NONE
    assert received.response_data is not None
    version = ELECT_LEADERS.max_version
    assert decode_response(ELECT_LEADERS, version, received.response_data) == reported


def test_non_controller_error_is_returned_to_the_broker_and_not_to_the_client() -> None:
    """The broker then retries at the next controller."""
    reported = ElectLeadersResponse(
        error_code=ErrorCode.NOT_CONTROLLER, replica_election_results=()
    )
    received = forwarded(
        envelope(framed(ELECT_LEADERS, INSIDE)), lambda request: request.reply(reported)
    )
    assert received == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=41),)), True),
        (CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=36),)), False),
        (DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=41),)), True),
        (DeleteTopicsResponse(responses=()), False),
        (ElectLeadersResponse(error_code=41, replica_election_results=()), True),
    ],
)
def test_error_can_be_returned_per_item_of_a_forwarded_request(
    body: Message, expected: bool
) -> None:
    assert says(body, ErrorCode.NOT_CONTROLLER) is expected


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (envelope(framed(ELECT_LEADERS, INSIDE), b""), 97),
        (envelope(framed(ELECT_LEADERS, INSIDE), None), 97),
        (envelope(framed(ELECT_LEADERS, INSIDE), ALICE, b""), 42),
        (envelope(b"\0"), 35),
        (envelope(framed(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=()))), 42),
        (envelope(framed(ENVELOPE, envelope(framed(ELECT_LEADERS, INSIDE)))), 42),
    ],
    ids=["no principal", "null principal", "no address", "no request", "asked by itself", "nested"],
)
def test_invalid_envelopes_are_rejected(request_: EnvelopeRequest, error: int) -> None:
    def never(request: ForwardedRequest) -> None:
        raise AssertionError(f"{request.request.api.name} was let in")

    assert forwarded(request_, never) == EnvelopeResponse(error_code=error)


def test_answer_that_cannot_be_encoded_becomes_an_error_of_the_envelope() -> None:
    """The exception would pass through the controller, whose step would be interrupted, and the node would end."""
    impossible = ElectLeadersResponse(error_code=1 << 20, replica_election_results=())
    answer = forwarded(
        envelope(framed(ELECT_LEADERS, INSIDE)), lambda found: found.reply(impossible)
    )
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.response_data is None
