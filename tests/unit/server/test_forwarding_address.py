"""The address of a client in the Envelope of its request: access control entries with a host are checked against it."""

import socket
from typing import Any

import pytest

from quorum_node.protocol.apis import DESCRIBE_QUORUM
from quorum_node.protocol.describe import DescribeQuorumRequest
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.frames import Request
from quorum_node.security.caller import Caller
from quorum_node.server.broker.forwarding import Forwarding
from quorum_node.server.broker.refusals import refuse


class Channel:
    """In place of the connection to the active controller: keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[EnvelopeRequest] = []

    def ask(self, api: object, body: EnvelopeRequest, *_: object, **__: object) -> None:
        self.asked.append(body)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::7", "2001:db8::7"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
async def test_envelope_has_the_address_of_the_client(host: str, address: str) -> None:
    channel: Any = Channel()
    body = DescribeQuorumRequest(topics=())
    inbound: Any = type("Inbound", (), {})()
    inbound.request = Request(DESCRIBE_QUORUM, 2, 1, "c", body)
    inbound.caller = Caller("User:alice", host, "CLIENTS")
    Forwarding(channel, refuse).forward(inbound, body)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    assert bytes(channel.asked[0].client_host_address) == socket.inet_pton(family, address)
