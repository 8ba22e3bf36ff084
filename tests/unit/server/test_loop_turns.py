"""How long a large answer over TLS holds the loop: CPU time of its longest turn, which other work on the machine does not change."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import uvloop
from pydantic import BaseModel

from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from quorum_node.server.admin.pieced_document import PiecedDocument
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from support.http_listener import http_listener
from support.listener_settings import listener_settings
from support.ports import free_ports
from support.tls_folder import CONFIG, tls_files
from support.tls_quorum import certificate_of, client_context, new_authority

ANSWER_BYTES = 8 << 20
MAX_TURN_MS = 1.0
ROUNDS = 10
CA = new_authority()
HELLO = encode_request(
    API_VERSIONS,
    3,
    1,
    "me",
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
)


class Turns:
    """The longest turn of the loop, in milliseconds of CPU of its thread."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._loop = asyncio.get_running_loop()
        self._began = time.thread_time()
        self._next()

    def _next(self) -> None:
        ended = time.thread_time()
        self.longest_ms = max(self.longest_ms, (ended - self._began) * 1000)
        self._began = ended
        self._loop.call_soon(self._next)

    def begin_anew(self) -> float:
        """What the longest one was."""
        found, self.longest_ms = self.longest_ms, 0.0
        return found


def ask(port: int, folder: Path) -> None:
    """One answer after the other."""
    context = client_context(folder, folder / "ca.crt")
    plain = socket.create_connection(("127.0.0.1", port), 30.0)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        for _ in range(ROUNDS):
            connection.sendall(HELLO)
            left = int.from_bytes(connection.recv(4), "big")
            while left:
                left -= len(connection.recv(min(left, 1 << 20)))


class Rest(BaseModel):
    """The rest of the document."""

    end_offset: int = 7


def ask_http(port: int, folder: Path) -> None:
    """One answer after the other."""
    context = client_context(folder, folder / "ca.crt")
    with httpx.Client(verify=context, trust_env=False, timeout=30) as client:
        for _ in range(ROUNDS):
            assert len(client.get(f"https://127.0.0.1:{port}/").content) >= ANSWER_BYTES


def test_http_response_of_eight_mebibytes_blocks_the_loop_for_at_most_a_millisecond(
    tmp_path: Path,
) -> None:
    """A list in JSON, which is complete before it is sent; also here the calmest of some rounds."""
    files = tls_files(tmp_path / "1", certificate_of("member", 1, CA), CA.certificate)
    entry = b'"' + 254 * b"x" + b'"'
    longest: list[float] = []

    async def run() -> None:
        (number,) = free_ports(1)
        turns = Turns()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            document = PiecedDocument("entries")
            for count in range(ANSWER_BYTES // len(entry)):
                document.add(entry)
                if count % 1000 == 0:
                    await asyncio.sleep(0)
            longest.append(turns.begin_anew())
            await document.response(Rest())(scope, receive, send)
            longest.append(turns.begin_anew())

        loop = asyncio.get_running_loop()
        make = http_listener(application).make
        server = await loop.create_server(make, "127.0.0.1", number, ssl=files.server)
        await asyncio.to_thread(ask_http, number, tmp_path / "1")
        server.close()

    uvloop.run(run())
    rounds = longest[3::2]
    assert len(rounds) == ROUNDS - 1
    assert min(rounds) <= MAX_TURN_MS


def test_response_of_eight_mebibytes_blocks_the_loop_for_at_most_a_millisecond(
    tmp_path: Path,
) -> None:
    """The calmest of some rounds: what another process does to the caches of the processor is not meant."""
    files = tls_files(tmp_path / "1", certificate_of("member", 1, CA), CA.certificate)
    records = memoryview(bytes(ANSWER_BYTES))
    longest: list[float] = []

    async def run() -> None:
        (number,) = free_ports(1)
        turns = Turns()
        authentication = TlsAuthentication("TOOLS", files, CONFIG, RefusedPeers(), lambda why: None)

        def answer(inbound: InboundRequest) -> None:
            longest.append(turns.begin_anew())
            head = (ANSWER_BYTES).to_bytes(4, "big")
            inbound.encoded = [head, records]
            inbound.connection.write_ready(0)

        listener = KafkaListener(
            listener_settings("TOOLS", port=number),
            answer,
            Metrics(),
            lambda *_: None,
            authentication=authentication,
        )
        await listener.start()
        await asyncio.to_thread(ask, number, tmp_path / "1")
        longest.append(turns.begin_anew())
        await listener.close(0.1)

    uvloop.run(run())
    rounds = longest[2:]
    assert len(rounds) == ROUNDS - 1
    assert min(rounds) <= MAX_TURN_MS
