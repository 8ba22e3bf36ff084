"""The ports with TLS and SASL, over real sockets: handshakes cut or changed at any byte, and forged tokens.

The decoders alone are fuzzed in `test_fuzz`. Here the listener is tested as well: every unauthenticated client is
disconnected, logged and counted, no client is authenticated by chance, no state is left behind, and the next client is served.
"""

import asyncio
import contextlib
import os
import random
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from quorum_node.configuration.listener_config import SaslConfig
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from quorum_node.protocol.frames import encode_request
from quorum_node.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import Credentials
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from support.listener_settings import listener_settings
from support.ports import free_ports
from support.tls_folder import CONFIG, tls_files
from support.tls_quorum import certificate_of, client_context, new_authority

CA = new_authority()
SHA_512 = ScramMechanism.SHA_512
NONCE = "0123456789abcdefghijklmnop"
HELLO = encode_request(
    API_VERSIONS,
    3,
    1,
    "me",
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
)
SHAKE = encode_request(SASL_HANDSHAKE, 1, 1, "me", SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
SHORT_INPUTS = 60
LONG_TOKENS = 20_000
MAX_HANDSHAKE_BYTES = 4096
"""More than a client ever sends until it is let in."""


class Stored:
    """alice, with an unknown password."""

    are_loaded = True
    version = object()

    def __init__(self) -> None:
        made = made_from_password(SHA_512, "nobody-knows-it", b"salt", 4096)
        self._alice = made.record("alice", SHA_512)

    def key_of(self, mechanism: ScramMechanism, user: str) -> UserScramCredentialRecord | None:
        return self._alice if user == "alice" else None

    def credentials(self) -> Credentials:
        return Credentials(self.key_of, Decoy(b"secret"), lambda: NONCE)


class Port:
    """A listener with TLS, or one where clients log in."""

    def __init__(self, folder: Path, *, logs_in: bool) -> None:
        (self.number,) = free_ports(1)
        self.folder, self.counted, self.served = folder, list[str](), 0
        self.malformed = 0
        config = replace(CONFIG, handshakes_rate=10_000, handshakes_max=64)
        files = tls_files(folder, certificate_of("member", 1, CA), CA.certificate)
        authentication = TlsAuthentication(
            "TOOLS", files, config, RefusedPeers(), self.counted.append
        )
        settings = listener_settings("TOOLS", port=self.number)
        sasl = SaslConfig((SHA_512,), failed_delay_ms=0, logins_rate=10_000)
        self.metrics = Metrics()
        self.listener = KafkaListener(
            replace(settings, sasl=sasl if logs_in else None),
            self._serve,
            self.metrics,
            self._malformed,
            authentication=None if logs_in else authentication,
            stored=Stored(),
        )

    def _serve(self, inbound: InboundRequest) -> None:
        self.served += 1
        inbound.reply(ApiVersionsResponse(error_code=0, api_keys=()))

    def _malformed(self, why: str, detail: str, peer: str) -> None:
        self.malformed += 1

    async def has_counted(self, least: int) -> None:
        """So many clients that were refused: a port counts one after the client knows."""
        async with asyncio.timeout(10):
            while len(self.counted) < least:  # noqa: ASYNC110 - what changes is in the code under test
                await asyncio.sleep(0.01)

    async def is_empty(self) -> None:
        """Nothing is left of those who came."""
        async with asyncio.timeout(10):
            while self.listener.connections:  # noqa: ASYNC110 - what changes is in the code under test
                await asyncio.sleep(0.01)


def at_a_port(
    folder: Path, play: Callable[[Port], Awaitable[None]], *, logs_in: bool = False
) -> None:
    async def run() -> None:
        faults: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        port = Port(folder, logs_in=logs_in)
        await port.listener.start()
        descriptors = len(os.listdir("/proc/self/fd"))
        try:
            await play(port)
            await port.is_empty()
            async with asyncio.timeout(
                10
            ):  # the clients' own sockets end in later turns of the loop
                while len(os.listdir("/proc/self/fd")) > descriptors + 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert faults == []
        finally:
            await port.listener.close(0.1)

    uvloop.run(run())


async def shake_hands(port: Port, changed: Callable[[int, bytes], bytes]) -> bool:
    """A client that is good but for what `changed` makes of its bytes; whether its request is answered.

    `changed`: takes how many bytes went before, and the next ones.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(port.folder, port.folder / "ca.crt")
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    sent, requested = 0, False
    try:
        async with asyncio.timeout(10):
            while True:
                try:
                    if not requested:
                        client.do_handshake()
                        client.write(HELLO)
                        requested = True
                    return bool(client.read(1))
                except ssl.SSLWantReadError:
                    pass
                data = outgoing.read()
                writer.write(changed(sent, data))
                sent += len(data)
                came = await reader.read(1 << 16)
                if not came:
                    return False
                incoming.write(came)
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def places(count: int, all_of_them: bool) -> list[int]:
    if all_of_them:
        return list(range(count))
    rng = random.Random(17)
    return sorted({0, 1, 4, 5, 6, count - 1, *(rng.randrange(count) for _ in range(20))})


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_handshake_survives_cuts_and_changes_at_any_byte(everywhere: bool, tmp_path: Path) -> None:
    """Cut: the client is gone. Changed: one byte is another one."""

    async def play(port: Port) -> None:
        sizes: list[int] = []

        def measured(sent: int, data: bytes) -> bytes:
            sizes.append(len(data))
            return data

        assert await shake_hands(port, measured)
        last = sum(sizes) - len(HELLO)
        assert last < MAX_HANDSHAKE_BYTES
        unharmed = list[int]()
        for at in places(last - 40, everywhere):

            def changed(sent: int, data: bytes, at: int = at) -> bytes:
                if not sent <= at < sent + len(data):
                    return data
                other = bytes([data[at - sent] ^ 0x55])
                return data[: at - sent] + other + data[at - sent + 1 :]

            await cut_off(port, at)
            served = port.served
            if await shake_hands(port, changed):
                unharmed.append(at)
            else:
                assert port.served == served, f"accepted with a change at byte {at}"
        assert await shake_hands(port, lambda _, data: data), "the next client was not served"
        refused = len(set(places(last - 40, everywhere)) - set(unharmed))
        await port.has_counted(refused)
        await port.is_empty()
        assert set(port.counted) <= {"handshake", "certificate"}
        # The version in the header of the first record is ignored (RFC 8446, section 5.1).
        assert set(unharmed) <= {1, 2}, "no byte whose change is accepted"

    at_a_port(tmp_path, play)


async def cut_off(port: Port, at: int) -> None:
    """A good client that is gone after so many bytes of its own."""

    class Gone(Exception):
        pass

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(port.folder, port.folder / "ca.crt")
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    left = at
    with contextlib.suppress(Gone):
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
            data = outgoing.read()
            writer.write(data[:left])
            if len(data) >= left:
                raise Gone
            left -= len(data)
            came = await reader.read(1 << 16)
            if not came:
                raise Gone  # the port was faster: a slow client's handshake ends as well
            incoming.write(came)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    "count", [SHORT_INPUTS, pytest.param(100 * SHORT_INPUTS, marks=pytest.mark.long)]
)
@pytest.mark.timeout(900)
def test_unencrypted_tls_records_authenticate_no_client(count: int, tmp_path: Path) -> None:
    """Headers of records with any content, and bytes without any form."""
    rng = random.Random(count)

    def record() -> bytes:
        content = rng.randbytes(rng.choice((0, 1, 4, 40, 400, 5000)))
        kind, version = rng.choice((20, 21, 22, 23, 24, 255)), rng.choice((0x0301, 0x0303))
        size = rng.choice((len(content), 0, 0xFFFF, 16384))
        return struct.pack(">BHH", kind, version, size) + content

    async def play(port: Port) -> None:
        for _ in range(count):
            data = rng.choice((record, lambda: rng.randbytes(rng.randrange(2000))))()
            _, writer = await asyncio.open_connection("127.0.0.1", port.number)
            writer.write(data)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        assert port.served == 0
        assert await shake_hands(port, lambda _, data: data)

    at_a_port(tmp_path, play)


def token(rng: random.Random) -> bytes:
    """A possible message of SCRAM: parts of valid ones, mixed up."""
    parts = (
        b"n,,", b"y,,", b"p=tls-unique,,", b"n=alice", b",r=" + NONCE.encode(), b"r=", b",", b"=", b"c=biws",
        b",p=" + b"A" * 88, b"m=x", b"a=alice", b"=2C", b"=3D", b"\xff", b"\0", b"i=4096", b"s=QSXCR+Q6sek8bf92",
        rng.randbytes(8), b"n" * rng.choice((1, 300, 60_000)),
    )  # fmt: skip
    return b"".join(rng.choices(parts, k=rng.randrange(1, 9)))


@pytest.mark.parametrize("count", [SHORT_INPUTS, pytest.param(LONG_TOKENS, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_random_sasl_tokens_authenticate_no_client(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)

    async def play(port: Port) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
            if rng.random() < 0.9:
                writer.write(SHAKE)
            for number in range(rng.randrange(1, 4)):
                first = b"n,,n=alice,r=abc"
                sent = first if number == 0 and rng.random() < 0.5 else token(rng)
                body = SaslAuthenticateRequest(auth_bytes=sent)
                frame = encode_request(SASL_AUTHENTICATE, 2, 2 + number, "me", body)
                if rng.random() < 0.2:
                    frame = frame[: rng.randrange(len(frame))] + rng.randbytes(3)
                writer.write(frame)
            writer.write(HELLO)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(10):
                    await reader.read()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        assert port.served == 0, "an unauthenticated request was handled"

    at_a_port(tmp_path, play, logs_in=True)
