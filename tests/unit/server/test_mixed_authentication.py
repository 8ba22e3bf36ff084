"""A port that takes clear text beside TLS, over real sockets."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import ConfigError
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from quorum_node.security.caller import Caller
from quorum_node.server.listener.first_byte import speaks_tls
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.mixed_authentication import REMEMBERED_SECONDS, MixedAuthentication
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from support.listener_settings import listener_settings
from support.ports import free_ports
from support.tls_folder import CONFIG, tls_files
from support.tls_quorum import certificate_of, client_context, new_authority, write_folder

CA, OTHER = new_authority(), new_authority("ca-2")
MEMBER = certificate_of("member", 1, CA)
HELLO = encode_request(
    API_VERSIONS,
    3,
    1,
    "me",
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
)


class MixedPort:
    """Of member 1. `now`: what its authentication takes for the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        files = tls_files(folder / "1", MEMBER, CA.certificate, node_id=1)
        plain = TlsAuthentication("CONTROLLER", files, CONFIG, RefusedPeers(), lambda why: None)
        self.authentication = MixedAuthentication(plain, lambda: self.now)
        (self.number,) = free_ports(1)
        self.callers: list[Caller] = []
        self.listener = KafkaListener(
            listener_settings("CONTROLLER", port=self.number),
            self._answer,
            Metrics(),
            lambda why, detail, peer: None,
            authentication=self.authentication,
        )

    def _answer(self, inbound: InboundRequest) -> None:
        self.callers.append(inbound.caller)
        inbound.reply(ApiVersionsResponse(error_code=0, api_keys=()))

    def context(self, issuer: object = CA) -> ssl.SSLContext:
        made = certificate_of("member", 2, CA if issuer is CA else OTHER)
        write_folder(self.folder / "client", made, CA.certificate)
        return client_context(self.folder / "client", self.folder / "1" / "ca.crt")

    async def connect(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = None if context is None else "127.0.0.1"
        return await asyncio.open_connection(
            "127.0.0.1", self.number, ssl=context, server_hostname=host
        )

    async def asks(self, context: ssl.SSLContext | None) -> bool:
        try:
            reader, writer = await self.connect(context)
            writer.write(HELLO)
            found = bool(await reader.read(4))
            writer.close()
            await writer.wait_closed()
        except OSError:
            return False
        return found


def at_a_port(folder: Path, play: Callable[[MixedPort], Awaitable[None]]) -> None:
    """On the loop that nodes run on."""

    async def run() -> None:
        port = MixedPort(folder)
        await port.listener.start()
        await play(port)
        await port.listener.close(0.1)

    uvloop.run(run())


def test_both_protocols_are_served_and_only_tls_has_a_principal(tmp_path: Path) -> None:
    async def play(port: MixedPort) -> None:
        assert await port.asks(None)
        assert await port.asks(port.context())
        plain, named = port.callers
        assert (plain.principal, plain.identity) == ("User:ANONYMOUS", None)
        assert named.principal == "User:CN=member-2"

    at_a_port(tmp_path, play)


def test_foreign_certificate_is_rejected(tmp_path: Path) -> None:
    async def play(port: MixedPort) -> None:
        assert not await port.asks(port.context(OTHER))
        assert port.callers == []

    at_a_port(tmp_path, play)


def test_clear_text_clients_are_reported_while_connected_and_a_minute_longer(
    tmp_path: Path,
) -> None:
    async def play(port: MixedPort) -> None:
        assert await port.asks(port.context())
        assert port.authentication.in_clear_text() == ()
        reader, writer = await port.connect(None)
        writer.write(HELLO)
        await reader.read(4)
        port.now += 10 * REMEMBERED_SECONDS
        assert port.authentication.in_clear_text() == ("127.0.0.1",)
        writer.close()
        async with asyncio.timeout(10):
            while port.listener.connections:  # noqa: ASYNC110 - changes in the code under test
                await asyncio.sleep(0.01)
        port.now += REMEMBERED_SECONDS - 1
        assert port.authentication.in_clear_text() == ("127.0.0.1",)
        port.now += 2
        assert port.authentication.in_clear_text() == ()

    at_a_port(tmp_path, play)


@pytest.mark.parametrize(
    ("reported", "is_tls"),
    [(b"\x16\x03\x01", True), (HELLO, False), (b"GET / HTTP/1.1\r\n", False), (b"", False)],
)
def test_first_byte_selects_the_protocol_permanently(reported: bytes, is_tls: bool) -> None:
    async def run() -> None:
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        theirs.sendall(reported)
        assert await speaks_tls(mine, 30.0 if reported else 0.05) is is_tls
        if reported:
            assert mine.recv(64) == reported[:64]
        mine.close()
        theirs.close()

    uvloop.run(run())


def test_node_without_certificates_cannot_accept_tls_beside_clear_text(tmp_path: Path) -> None:
    raw = {
        "node.id": "1",
        "metadata.log.dir": str(tmp_path),
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "admin.listener": "http://127.0.0.1:8080",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "quorum.tls.migration": "accept",
    }
    with pytest.raises(ConfigError, match="CONTROLLER uses PLAINTEXT"):
        check_config(raw)
