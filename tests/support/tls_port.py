"""A port with TLS over real sockets: a listener of member 1, and clients with any certificate."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop
from cryptography import x509

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from quorum_node.security.caller import Caller
from quorum_node.security.principals.mapping_rules import parse_mapping_rules
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.transport.tls_contexts import Certificates
from support.generated_certificates import Issued, pem
from support.listener_settings import listener_settings
from support.ports import free_ports
from support.tls_folder import CONFIG, tls_files
from support.tls_quorum import (
    certificate_of,
    client_context,
    new_authority,
    write_folder,
)

CA = new_authority()
MEMBER = certificate_of("member", 1, CA)
HELLO = encode_request(
    API_VERSIONS,
    3,
    1,
    "me",
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
)
ANSWER = ApiVersionsResponse(error_code=0, api_keys=())


class Reports(RefusedPeers):
    """Keeps what would be logged."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def client_refused(self, listener: str, host: str, why: str) -> None:
        self.told.append(why)


class Port:
    """Of member 1. Requests are answered at once, unless `parks`."""

    def __init__(
        self,
        folder: Path,
        *,
        rules: str = "",
        asked: Certificates,
        properties: dict[str, str],
        **told: Any,
    ) -> None:
        self.folder = folder
        self.files = tls_files(
            folder / "1",
            MEMBER,
            CA.certificate,
            node_id=1,
            asked=asked,
            revoked=CA.certificate,  # without effect: it is trusted
            **properties,
        )
        self.reports, self.counted = Reports(), list[str]()
        config = replace(CONFIG, **told)
        if rules:
            config = replace(config, role_rules=parse_mapping_rules(rules))
        self.authentication = TlsAuthentication(
            "TOOLS", self.files, config, self.reports, self.counted.append
        )
        (self.number,) = free_ports(1)
        self.callers: list[Caller] = []
        self.parks = False
        self.parked: list[InboundRequest] = []
        self.listener = KafkaListener(
            listener_settings("TOOLS", port=self.number),
            self._answer,
            Metrics(),
            lambda why, detail, peer: None,
            voter_ids=lambda: (1, 2),
            authentication=self.authentication,
        )

    def _answer(self, inbound: InboundRequest) -> None:
        self.callers.append(inbound.caller)
        if self.parks:
            self.parked.append(inbound)
        else:
            inbound.reply(ANSWER)

    def context(self, made: Issued | None, *above: x509.Certificate) -> ssl.SSLContext:
        write_folder(self.folder / "client", made or MEMBER, CA.certificate)
        with (self.folder / "client" / "tls.crt").open("ab") as chain:
            chain.write(pem(*above))
        folder = self.folder / "client" if made is not None else None
        return client_context(folder, self.folder / "1" / "ca.crt")

    async def connect(
        self, made: Issued | None, *above: x509.Certificate
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.number, ssl=self.context(made, *above), server_hostname="127.0.0.1"
        )

    async def asks(self, made: Issued | None) -> bool:
        """Whether a caller with this certificate gets a response."""
        try:
            reader, writer = await self.connect(made)
            writer.write(HELLO)
            found = bool(await reader.read(4))
            writer.close()
        except OSError:
            return False
        return found


def at_a_port(
    folder: Path,
    play: Callable[[Port], Awaitable[None]],
    rules: str = "",
    asked: Certificates = Certificates.AS_CONFIGURED,
    properties: dict[str, str] | None = None,
    **reported: Any,
) -> None:
    """On the loop that nodes run on. `properties`: as of `tls_files`. `reported`: fields of the TLS configuration."""

    async def run() -> None:
        port = Port(folder, rules=rules, asked=asked, properties=properties or {}, **reported)
        await port.listener.start()
        try:
            await play(port)
        finally:
            await port.listener.close(0.1)

    uvloop.run(run())
