"""The admin token in clear text: refused from another host where members use TLS, and nowhere else."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from quorum_node.configuration.node_config import check_config
from quorum_node.server.admin.app import Doorkeeper

SERVED = 204
BASE = {
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "metadata.log.dir": "/tmp/x",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "admin.listener": "http://127.0.0.1:8080",
}
TLS = {
    "listener.security.protocol.map": "CONTROLLER:SSL",
    "ssl.keystore.location": "/x/keystore.pem",
    "ssl.truststore.location": "/x/ca.crt",
}
HTTPS = {"admin.listener": "https://127.0.0.1:8443"}
OPTION = {"admin.token.in.clear.text": "true"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, False),
        (OPTION, False),
        (TLS, True),
        ({**TLS, **OPTION}, False),
        ({**TLS, **HTTPS}, False),
    ],
)
def test_tokens_require_tls_if_members_use_it(properties: dict[str, str], expected: bool) -> None:
    """A quorum without TLS is unaffected."""
    assert check_config({**BASE, **properties}).token_needs_tls is expected


def asked(
    host: str, token: str | None, scheme: str = "http", *, needs_tls: bool = True
) -> tuple[int, str]:
    """Status and body of the response of a node with the token `right`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": SERVED, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    node: Any = SimpleNamespace(
        token_needs_tls=needs_tls, guard=None, admin_tokens=lambda: ("right",)
    )
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "method": "GET", "path": "/v1/node", "scheme": scheme,
        "client": (host, 1), "headers": headers,
    }  # fmt: skip
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the body was asked for")

    asyncio.run(Doorkeeper(app, node)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"].decode()


@pytest.mark.parametrize("token", ["right", "wrong"])
def test_token_from_another_host_over_clear_text_is_rejected_whether_valid_or_not(
    token: str,
) -> None:
    status, body = asked("10.0.0.1", token)
    assert status == 401
    assert "admin.token.in.clear.text" in body
    assert token not in body.replace("wrongly", "")


def test_requests_without_token_or_over_tls_or_from_loopback_are_served() -> None:
    assert asked("10.0.0.1", None)[0] == SERVED
    assert asked("10.0.0.1", "right", "https")[0] == SERVED
    assert asked("127.0.0.1", "right")[0] == SERVED
    assert asked("::1", "right")[0] == SERVED
    assert asked("10.0.0.1", "right", needs_tls=False)[0] == SERVED
