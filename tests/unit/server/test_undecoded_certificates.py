"""Clients whose valid certificates can't be decoded: they are refused, and the node goes on."""

import asyncio
import ssl
from pathlib import Path

import pytest
import uvloop

from quorum_node.server.ending.fail_stop import watch_loop
from quorum_node.server.transport.undecoded_certificates import UndecodedContext
from support.tls_folder import tls_files
from support.tls_port import CA, MEMBER, Port, at_a_port
from support.tls_quorum import certificate_of
from support.undecodable_certificates import EXTENSIONS, undecodable

GOOD = certificate_of("admin", None, CA)


@pytest.mark.parametrize("place", EXTENSIONS)
def test_client_with_such_a_certificate_is_refused_and_the_next_one_is_served(
    place: str, tmp_path: Path
) -> None:
    bugs: list[BaseException] = []

    async def play(port: Port) -> None:
        watch_loop(asyncio.get_running_loop(), bugs.append)
        assert not await port.asks(undecodable(place, CA))
        assert await port.asks(GOOD)
        assert port.counted == ["certificate"]
        assert port.reports.told == ["shows a certificate that can't be read (ValueError)"]

    at_a_port(tmp_path, play)
    assert bugs == []


def test_client_whose_issuer_has_an_undecodable_name_is_refused_where_lists_name_issuers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is decoded only to look it up in revocation lists."""
    bugs: list[BaseException] = []
    monkeypatch.setattr(
        "quorum_node.server.transport.tls_peers.check_revoked", lambda *given: b"\xff".decode()
    )
    told = "shows CN=admin, which can't be read completely (UnicodeDecodeError)"

    async def play(port: Port) -> None:
        watch_loop(asyncio.get_running_loop(), bugs.append)
        assert not await port.asks(GOOD)
        assert port.reports.told == [told]

    at_a_port(tmp_path, play)
    assert bugs == []


def test_unexpected_error_of_a_handshake_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the client sent, nothing may end the node."""
    bugs: list[BaseException] = []
    shake = ssl.SSLObject.do_handshake

    async def play(port: Port) -> None:
        def fail(one: ssl.SSLObject) -> None:
            shake(one)
            if one.server_side:
                b"\xff".decode()

        watch_loop(asyncio.get_running_loop(), bugs.append)
        with monkeypatch.context() as patched:
            patched.setattr(ssl.SSLObject, "do_handshake", fail)
            assert not await port.asks(GOOD)
        assert await port.asks(GOOD)
        assert port.counted == ["handshake"]
        assert port.reports.told == ["the handshake failed (UNEXPECTED_UNICODEDECODEERROR)"]

    at_a_port(tmp_path, play)
    assert bugs == []


def test_certificate_is_still_given_in_binary_form(tmp_path: Path) -> None:
    async def play() -> None:
        files = tls_files(tmp_path, MEMBER, CA.certificate)
        assert isinstance(files.client, UndecodedContext)
        server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=files.server
        )
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=files.client)
        shown = writer.get_extra_info("ssl_object")
        assert shown.getpeercert() == {}
        assert (
            ssl.DER_cert_to_PEM_cert(shown.getpeercert(binary_form=True))
            in MEMBER.keystore.decode()
        )
        writer.close()
        server.close()

    uvloop.run(play())
