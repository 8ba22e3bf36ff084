"""A port with TLS over real sockets: who is let in as whom, how many may shake hands at a time, and who has to leave."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.fetch import FETCH as FETCH_API
from quorum_node.protocol.fetch import FetchRequest, ReplicaState
from quorum_node.protocol.frames import encode_request
from quorum_node.security.certificate_identity import Role
from quorum_node.server.listener import kafka_listener
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.large_reads import Reader
from quorum_node.server.listener.waiting_handshakes import ADDRESS_SHARE, BURST_SECONDS
from quorum_node.server.transport.bounded_handshake import MAX_HANDSHAKE_BYTES
from quorum_node.server.transport.tls_contexts import Certificates
from support.generated_certificates import Issued, authority, issue, pem
from support.tls_folder import look_again
from support.tls_port import ANSWER, CA, HELLO, Port, at_a_port
from support.tls_quorum import (
    A_RUN,
    HOURS,
    certificate_of,
    new_authority,
    now,
    write_folder,
)


def open_sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what changes is in the code under test
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("made", "principal", "role", "node_id"),
    [
        (certificate_of("member", 2, CA), "User:CN=member-2", Role.MEMBER, 2),
        (certificate_of("broker", 7, CA), "User:CN=broker-7", Role.BROKER, 7),
        (certificate_of("admin", None, CA), "User:CN=admin", Role.ADMIN, None),
    ],
)
def test_caller_has_the_identity_in_its_certificate(
    made: Issued, principal: str, role: Role, node_id: int | None, tmp_path: Path
) -> None:
    async def play(port: Port) -> None:
        assert await port.asks(made)
        (caller,) = port.callers
        assert (caller.principal, caller.host, caller.listener) == (
            principal,
            "127.0.0.1",
            "TOOLS",
        )
        assert caller.identity is not None
        assert (caller.identity.role, caller.identity.node_id) == (role, node_id)
        assert (caller.identity.namespace, caller.identity.quorum) == ("ns", "demo")

    at_a_port(tmp_path, play)


def named(name: str, *uris: str) -> Issued:
    return issue(name, issuer=CA, start=now() - HOURS, end=now() + A_RUN, uris=uris)


def test_certificate_of_another_naming_scheme_gets_the_role_of_the_mapping_rules(
    tmp_path: Path,
) -> None:
    other = "urn:metadataquorum:ns:other:admin"

    async def play(port: Port) -> None:
        for made, role in (
            (named("ops-reader"), Role.READER),
            (named("ops-reader", other), Role.READER),
            (named("ops-king"), None),
            (named("alice"), None),
            (named("ops-reader", "urn:metadataquorum:ns:demo:archiver"), Role.ARCHIVER),
        ):
            assert await port.asks(made)
            identity = port.callers[-1].identity
            assert (None if identity is None else identity.role) is role

    at_a_port(tmp_path, play, rules="RULE:^CN=ops-([a-z]+)$/$1/")


def alert(port: Port, made: Issued) -> str:
    """What a client with this certificate is told, by OpenSSL's name."""
    context = port.context(made)
    with socket.create_connection(("127.0.0.1", port.number), 10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.recv(1)
        except OSError as error:
            return str(getattr(error, "reason", error))
    return "no alert"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (certificate_of("admin", None, new_authority("ca-9")), "TLSV1_ALERT_UNKNOWN_CA"),
        (certificate_of("admin", None, CA, end=-HOURS / 2), "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    ],
    ids=["unknown-authority", "expired"],
)
def test_refused_client_is_told_why(made: Issued, reason: str, tmp_path: Path) -> None:
    """Otherwise it can't tell a refused certificate from a lost connection, and connects again."""

    async def play(port: Port) -> None:
        for _ in range(5):
            assert await asyncio.to_thread(alert, port, made) == reason

    at_a_port(tmp_path, play)


def test_certificate_with_two_identities_has_no_identity(tmp_path: Path) -> None:
    two = ("urn:metadataquorum:ns:demo:member:2", "urn:metadataquorum:ns:demo:member:3")

    async def play(port: Port) -> None:
        assert not await port.asks(named("double", *two))
        assert port.callers == []
        (why,) = port.reports.told
        assert "shows CN=double: the certificate names several identities in ns:demo" in why
        assert port.counted == ["certificate"]

    at_a_port(tmp_path, play)


def test_caller_without_an_optional_certificate_is_anonymous(tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        assert await port.asks(None)
        assert port.callers[0].principal == "User:ANONYMOUS"
        assert not await port.asks(certificate_of("admin", None, new_authority("ca-9")))
        assert port.reports.told == [
            "its certificate was not issued by an authority in the truststore"
        ]

    at_a_port(tmp_path, play, asked=Certificates.OPTIONAL)


def newest_version(port: Port, newest: ssl.TLSVersion) -> str | None:
    """The version that a client up to `newest` agrees on with the port; None if it is refused."""
    context = port.context(certificate_of("admin", None, CA))
    context.maximum_version = newest
    try:
        with (
            socket.create_connection(("127.0.0.1", port.number)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(HELLO)
            return connection.version() if connection.recv(4) else None
    except OSError:
        return None


@pytest.mark.parametrize(
    ("properties", "of_older_client", "of_newer_client"),
    [
        ({}, None, "TLSv1.3"),
        ({"enabled_protocols": "TLSv1.3,TLSv1.2"}, "TLSv1.2", "TLSv1.3"),
    ],
    ids=["default", "listed"],
)
def test_older_version_of_tls_is_accepted_only_if_it_is_listed(
    properties: dict[str, str],
    of_older_client: str | None,
    of_newer_client: str,
    tmp_path: Path,
) -> None:
    async def play(port: Port) -> None:
        older = await asyncio.to_thread(newest_version, port, ssl.TLSVersion.TLSv1_2)
        assert older == of_older_client
        newer = await asyncio.to_thread(newest_version, port, ssl.TLSVersion.TLSv1_3)
        assert newer == of_newer_client
        told = [each for each in port.reports.told if "ssl.enabled.protocols" in each]
        assert len(told) == (of_older_client is None)

    at_a_port(tmp_path, play, properties=properties)


def test_tls_session_is_not_resumed(tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        def session() -> object:
            context = port.context(certificate_of("admin", None, CA))
            with (
                socket.create_connection(("127.0.0.1", port.number)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
            ):
                connection.sendall(HELLO)
                connection.recv(4)
                found = connection.session
                return found is not None and found.has_ticket

        assert not await asyncio.to_thread(session)

    at_a_port(tmp_path, play)


def test_silent_handshakes_time_out_and_the_oldest_is_closed_first(tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        sockets = open_sockets()
        silent = [socket.create_connection(("127.0.0.1", port.number)) for _ in range(6)]
        reported, crowded = port.reports.told, "too many handshakes at a time"
        await until(lambda: len(reported) == 2)
        assert await port.asks(certificate_of("admin", None, CA)), "a fast client was refused"
        assert [crowded in each for each in reported] == [True] * 3
        await until(lambda: len(reported) == 6)
        assert all("the handshake timed out" in each for each in reported[3:])
        for each in silent:
            each.close()
        await until(lambda: open_sockets() <= sockets)

    at_a_port(tmp_path, play)


def from_address(address: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), source_address=(address, 0))


def test_handshakes_are_rate_limited_with_fair_turns_per_address(tmp_path: Path) -> None:
    """A flood waits for itself: who comes from elsewhere is next, though many wait already."""
    rate, count = 40, 20

    async def play(port: Port) -> None:
        began = asyncio.get_running_loop().time()
        flood = [from_address("127.0.0.9", port.number) for _ in range(count)]
        assert await port.asks(certificate_of("admin", None, CA))
        assert not port.reports.told, "a handshake of the flood blocked others"
        for each in flood:
            each.close()
        await until(lambda: len(port.reports.told) == count)
        seconds = asyncio.get_running_loop().time() - began
        address_rate = rate * ADDRESS_SHARE
        assert seconds > (count - 1) / address_rate - BURST_SECONDS

    at_a_port(tmp_path, play, handshakes_max=64, handshakes_rate=rate)


FETCH = encode_request(
    FETCH_API,
    17,
    2,
    "me",
    FetchRequest(replica_state=ReplicaState(replica_id=2), max_wait_ms=500, min_bytes=1, topics=()),
)


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize(
    ("made", "binding", "protected"),
    [
        (certificate_of("member", 2, CA), True, True),
        (certificate_of("member", 1, CA), True, False),
        (certificate_of("reader", None, CA), True, False),
        (certificate_of("broker", 2, CA), True, False),
        (named("stock-controller"), False, True),
    ],
    ids=["itself", "another-member", "reader", "broker", "nobody-is-bound"],
)
def test_connection_counts_as_a_voter_connection_only_with_its_certificate(
    made: Issued, binding: bool, protected: bool, tmp_path: Path
) -> None:
    """A voter's connection is never closed for others, and its requests never wait: a claim to be voter 2 is not enough."""

    async def play(port: Port) -> None:
        _, writer = await port.connect(made)
        writer.write(FETCH)
        await until(lambda: len(port.callers) == 1)
        (connection,) = port.listener.connections
        assert port.listener.book.is_voters(connection) is protected
        writer.close()

    at_a_port(tmp_path, play, binding=binding)


def test_peer_that_is_no_longer_trusted_is_disconnected_after_the_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_listener, "_SWEEP_SECONDS", 0.05)

    async def play(port: Port) -> None:
        new = new_authority("ca-2")
        idle, _ = await port.connect(certificate_of("reader", None, CA))
        port.parks = True
        busy, asking = await port.connect(certificate_of("broker", 3, CA))
        asking.write(HELLO)
        await until(lambda: len(port.parked) == 1)
        await until(lambda: len(port.listener.connections) == 2)
        write_folder(
            tmp_path / "1", certificate_of("member", 1, new), new.certificate, CA.certificate
        )
        assert look_again(port.files)
        port.authentication.changed()
        await asyncio.sleep(0.2)
        assert len(port.listener.connections) == 2, "both authorities are trusted"
        write_folder(tmp_path / "1", certificate_of("member", 1, new), new.certificate)
        assert look_again(port.files)
        port.authentication.changed()
        async with asyncio.timeout(10):
            assert await idle.read() == b""
            port.parked[0].reply(ANSWER)
            assert len(await busy.read()) > 4
        assert all("whose issuer is not trusted any more" in each for each in port.reports.told)

    at_a_port(tmp_path, play)


def test_revoked_authority_between_a_client_and_a_trusted_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On open connections and new ones. Those below another authority stay."""
    monkeypatch.setattr(kafka_listener, "_SWEEP_SECONDS", 0.05)
    lower, other = (
        authority(name, issuer=CA, start=now() - HOURS, end=now() + HOURS)
        for name in ("lower", "other")
    )

    async def play(port: Port) -> None:
        below = certificate_of("reader", None, lower)
        gone, _ = await port.connect(below, lower.certificate)
        stays = certificate_of("reader", None, other)
        kept, asking = await port.connect(stays, other.certificate)
        await until(lambda: len(port.listener.connections) == 2)
        (tmp_path / "1" / "revoked").write_text(f"{lower.certificate.serial_number:x}\n")
        look_again(port.files)
        port.authentication.changed()
        async with asyncio.timeout(10):
            assert await gone.read() == b""
            refused, its_writer = await port.connect(below, lower.certificate)
            with contextlib.suppress(OSError):
                assert await refused.read() == b""
            asking.write(HELLO)
            assert await kept.read(4), port.reports.told
        for each in (asking, its_writer):
            each.close()
        assert len(port.reports.told) == 2
        assert all("CN=lower with the serial" in each for each in port.reports.told)

    at_a_port(tmp_path, play)


@pytest.mark.long
def test_peer_with_an_expired_certificate_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_listener, "_SWEEP_SECONDS", 0.05)

    async def play(port: Port) -> None:
        made = certificate_of("reader", None, CA, end=timedelta(seconds=5))
        reader, _ = await port.connect(made)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        (why,) = port.reports.told
        assert "which expired at" in why

    at_a_port(tmp_path, play)


def test_client_with_hundreds_of_certificates_is_refused_before_they_are_read(
    tmp_path: Path,
) -> None:
    """Each takes a tenth of a millisecond on the loop, whether the client is let in or not."""
    reader = certificate_of("reader", None, CA)

    async def play(port: Port) -> None:
        assert await port.asks(reader)
        chain = tmp_path / "chain"
        one = pem(reader.certificate)
        chain.write_bytes(one * (1 + MAX_HANDSHAKE_BYTES // 400))
        context = port.context(reader)
        context.load_cert_chain(chain, port.folder / "client" / "tls.key")
        with contextlib.suppress(OSError):
            reading, writing = await asyncio.open_connection(
                "127.0.0.1", port.number, ssl=context, server_hostname="127.0.0.1"
            )
            writing.write(HELLO)
            assert await reading.read(4) == b""
        await until(lambda: bool(port.reports.told))
        assert port.reports.told == [
            "its handshake has more than 16 KiB: it sends too many or too large certificates"
        ]
        assert len(port.callers) == 1

    at_a_port(tmp_path, play)


def test_large_request_may_follow_the_handshake_at_once(tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        body = ApiVersionsRequest(client_software_name="x" * 30_000, client_software_version="1")
        reader, writer = await port.connect(certificate_of("reader", None, CA))
        writer.write(encode_request(API_VERSIONS, 3, 1, "me", body) * 20)
        received = 0
        async with asyncio.timeout(10):
            while received < 20:
                size_bytes = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size_bytes)
                received += 1
        writer.close()

    at_a_port(tmp_path, play)


def test_large_request_over_tls_counts_as_encrypted(tmp_path: Path) -> None:
    async def play(port: Port) -> None:
        counted: list[bool] = []
        reads = port.listener.large_reads
        has_read = reads.has_read

        def count(reader: Reader, size_bytes: int, *, is_encrypted: bool = False) -> None:
            # A transport that has received many records waits for turns, too.
            if isinstance(reader, KafkaConnection):
                counted.append(is_encrypted)
            has_read(reader, size_bytes, is_encrypted=is_encrypted)

        reads.has_read = count  # type: ignore[method-assign]
        body = ApiVersionsRequest(client_software_name="x" * 600_000, client_software_version="1")
        _, writer = await port.connect(certificate_of("reader", None, CA))
        writer.write(encode_request(API_VERSIONS, 3, 1, "me", body))
        await until(lambda: bool(counted))
        writer.close()
        assert all(counted)

    at_a_port(tmp_path, play)
