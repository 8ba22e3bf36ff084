"""Members connect to each other by TLS: which peers are accepted, what is logged of others, and new certificates on old connections."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.protocol.elections import VoteRequest as WireVoteRequest
from quorum_node.protocol.frames import Request
from quorum_node.raft.events import FailureReason
from quorum_node.records.identity import Endpoint
from quorum_node.server.ending.fail_stop import watch_loop
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.peers.tls_dialling import TlsDialling
from quorum_node.server.process.main import configure_logging
from support.generated_certificates import Issued, pem
from support.peer_outcomes import ANSWER, VOTE_REQUEST, Outcomes, grant
from support.peer_stand_in import Handle, Peer
from support.tls_folder import CONFIG, look_again, tls_files
from support.tls_quorum import certificate_of, new_authority, write_folder
from support.undecodable_certificates import EXTENSIONS, undecodable

CA = new_authority()


class Env:
    """This node is member 1; member 2 is dialled."""

    def __init__(self, folder: Path, there: Issued, handle: Handle = grant, **own: Any) -> None:
        mine = certificate_of("member", 1, CA)
        self.files = tls_files(folder / "1", mine, CA.certificate, node_id=1, **own)
        self.theirs = tls_files(folder / "2", there, CA.certificate)
        self.peer = Peer(handle, context=self.theirs.server)
        self.outcomes = Outcomes()
        self.voters: dict[int, int] = {}
        self.refusals: list[str] = []
        dialling = TlsDialling(
            self.files,
            CONFIG,
            RefusedPeers(),
            lambda host, port: self.voters.get(port),
            self.refusals.append,
        )
        self.pool = PeerPool(
            "test",
            Metrics(),
            partitions=1,
            reconnect_backoff_ms=1,
            on_malformed=lambda peer, text: None,
            dialling=dialling,
        )
        self.pool.attach(0, self.outcomes)

    async def start(self) -> None:
        await self.peer.start()
        self.voters[self.peer.endpoint.port] = 2

    async def has_renewed(self) -> None:
        """Waits until the successors of all connections are in use."""
        async with asyncio.timeout(5):
            while self.pool.renewing:  # noqa: ASYNC110 - changes in the code under test
                await asyncio.sleep(0.001)

    def end(self) -> None:
        self.pool.close()
        self.peer.close()


def dialled(folder: Path, shown: Issued, **own: Any) -> tuple[object, list[str]]:
    """The outcome of a vote request to voter 2 with this certificate, valid or not; and the counters."""
    found: list[Any] = []

    async def play() -> None:
        env = Env(folder, certificate_of("member", 2, CA), **own)
        write_folder(folder / "shown", shown, CA.certificate)
        env.theirs.server.load_cert_chain(
            folder / "shown" / "tls.crt", folder / "shown" / "tls.key"
        )
        await env.start()
        env.pool.send(0, 1, env.peer.endpoint, VOTE_REQUEST, 5000)
        found.extend((await env.outcomes.of(1), env.refusals))
        env.end()

    configure_logging("info")
    uvloop.run(play())
    outcome, refusals = found
    return outcome, refusals


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    return [line["message"] for line in lines if line["level"] == "warning"]


def test_request_is_sent_to_the_dialled_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dialled(tmp_path, certificate_of("member", 2, CA)) == (ANSWER, [])
    assert warnings(capsys) == []


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (
            certificate_of("member", 3, CA),
            "is not the expected node: the server at the address of voter 2 has",
        ),
        (
            certificate_of("broker", 2, CA),
            "has the certificate urn:metadataquorum:ns:demo:broker:2",
        ),
        (certificate_of("admin", None, CA), "urn:metadataquorum:ns:demo:admin"),
        (
            certificate_of("member", 2, CA, hosts=("demo-2.ns.svc",)),
            "a certificate for demo-2.ns.svc, not for 127.0.0.1",
        ),
        (
            certificate_of("member", 2, new_authority("ca-9")),
            "its certificate was not issued by an authority in the truststore",
        ),
        (certificate_of("member", 2, CA, end=timedelta(minutes=-1)), "its certificate has expired"),
    ],
)
def test_peer_with_another_identity_gets_no_request_and_is_logged_in_one_line(
    there: Issued, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The peer would answer: only the connecting member checks the certificate."""
    outcome, refusals = dialled(tmp_path, there)
    assert outcome is FailureReason.REFUSED
    assert len(refusals) == 1
    assert refusals[0] in ("certificate", "handshake")
    (line,) = warnings(capsys)
    assert line.startswith("no connection to 127.0.0.1:")
    assert why in line


@pytest.mark.parametrize("place", EXTENSIONS)
def test_peer_whose_certificate_cannot_be_decoded_gets_no_request_and_is_no_bug(
    place: str, tmp_path: Path
) -> None:
    bugs: list[BaseException] = []

    async def play() -> None:
        env = Env(tmp_path, certificate_of("member", 2, CA))
        shown = undecodable(place, CA)
        write_folder(tmp_path / "shown", shown, CA.certificate)
        env.theirs.server.load_cert_chain(
            tmp_path / "shown" / "tls.crt", tmp_path / "shown" / "tls.key"
        )
        await env.start()
        watch_loop(asyncio.get_running_loop(), bugs.append)
        env.pool.send(0, 1, env.peer.endpoint, VOTE_REQUEST, 5000)
        outcome = await env.outcomes.of(1)
        env.end()
        assert outcome is FailureReason.REFUSED
        assert env.refusals == ["certificate"]

    uvloop.run(play())
    assert [each for each in bugs if isinstance(each, Exception)] == []


def test_any_name_is_accepted_with_host_verification_disabled(tmp_path: Path) -> None:
    there = certificate_of("member", 2, CA, hosts=("demo-2.ns.svc",))
    own = {"endpoint_identification_algorithm": "none"}
    assert dialled(tmp_path, there, **own) == (ANSWER, [])


@pytest.mark.requirement("K631-12")
def test_member_with_a_revoked_certificate_gets_no_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, other = (certificate_of("member", 2, CA) for _ in range(2))
    assert dialled(tmp_path / "other", there, revoked=other.certificate) == (ANSWER, [])
    outcome, refusals = dialled(tmp_path, there, revoked=there.certificate)
    assert (outcome, refusals) == (FailureReason.REFUSED, ["certificate"])
    (line,) = warnings(capsys)
    assert f"with the serial {there.certificate.serial_number:x}, which is revoked" in line


def strict_server(folder: Path, *, alerts: bool) -> tuple[socket.socket, threading.Thread]:
    """Voter 2, which does not trust this node. `alerts`: it sends the reason; asyncio's servers just close."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "2" / "tls.crt", folder / "2" / "tls.key")
    context.load_verify_locations(cadata=pem(new_authority("ca-9").certificate).decode())
    if alerts:
        context.verify_mode = ssl.CERT_REQUIRED
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with contextlib.suppress(ssl.SSLError, ConnectionError), connection:
                    context.wrap_socket(connection, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    return listening, thread


@pytest.mark.parametrize(
    ("alerts", "why"),
    [
        (True, "it does not trust the authority of this node's certificate"),
        (False, "it closes the connection before it answers; it may not accept"),
    ],
)
def test_member_that_rejects_the_certificate_of_this_node_is_reported(
    alerts: bool, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> None:
        env = Env(tmp_path, certificate_of("member", 2, CA))
        listening, thread = strict_server(tmp_path, alerts=alerts)
        place = Endpoint("", "127.0.0.1", listening.getsockname()[1])
        for number in range(5):
            env.pool.send(0, number, place, VOTE_REQUEST, 5000)
            assert isinstance(await env.outcomes.of(number), FailureReason)
        env.pool.close()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()

    configure_logging("info")
    uvloop.run(play())
    (line,) = warnings(capsys)
    assert why in line


def test_new_certificate_is_used_on_new_connections_and_old_ones_end_after_their_responses(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        parked: list[tuple[Request, asyncio.StreamWriter]] = []
        begun = asyncio.Event()

        async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
            if isinstance(request.body, WireVoteRequest) and not parked:
                parked.append((request, writer))
                begun.set()
            else:
                await grant(request, writer)

        env = Env(tmp_path, certificate_of("member", 2, CA), handle)
        await env.start()
        send = partial(env.pool.send, 0)
        send(1, env.peer.endpoint, VOTE_REQUEST, 5000)
        await begun.wait()
        fresh = certificate_of("member", 1, CA)
        write_folder(tmp_path / "1", fresh, CA.certificate)
        assert look_again(env.files)
        env.pool.renew()
        await env.has_renewed()
        send(2, env.peer.endpoint, VOTE_REQUEST, 5000)
        assert await env.outcomes.of(2) == ANSWER
        assert 1 not in env.outcomes.ended, "the old connection still waits for its answer"
        shown = [
            each.get_extra_info("ssl_object").getpeercert(binary_form=True)
            for each in env.peer.writers
        ]
        assert [each == fresh.certificate.public_bytes(Encoding.DER) for each in shown] == [
            False,
            True,
        ]
        request, writer = parked[0]
        await grant(request, writer)
        assert await env.outcomes.of(1) == ANSWER
        async with asyncio.timeout(5):
            await writer.wait_closed()
        assert not env.peer.writers[1].is_closing()
        env.end()

    uvloop.run(play())


def test_request_during_a_renewal_waits_for_no_handshake(tmp_path: Path) -> None:
    """The old connection is used until its successor is ready."""

    async def play() -> None:
        env = Env(tmp_path, certificate_of("member", 2, CA))
        await env.start()
        try:
            send = partial(env.pool.send, 0)
            send(1, env.peer.endpoint, VOTE_REQUEST, 5000)
            await env.outcomes.of(1)
            for renewals in (1, 2):
                async with asyncio.timeout(5):
                    while len(env.peer.writers) < renewals:  # noqa: ASYNC110 - it accepts them later
                        await asyncio.sleep(0.001)
                for _ in range(renewals):
                    env.pool.renew()
                for number in (10 * renewals, 10 * renewals + 1):
                    send(number, env.peer.endpoint, VOTE_REQUEST, 5000)
                    assert env.pool.ready_connections(env.peer.endpoint) == 1
                connections = len(env.peer.writers)
                for number in (10 * renewals, 10 * renewals + 1):
                    assert await env.outcomes.of(number) == ANSWER
                assert not env.peer.writers[connections - 1].is_closing()
                async with asyncio.timeout(5):
                    await env.peer.writers[connections - 1].wait_closed()
                assert env.pool.ready_connections(env.peer.endpoint) == 1, "the successor"
        finally:
            env.end()

    uvloop.run(play())


def test_connection_whose_successor_can_not_be_opened_is_not_used_any_more(tmp_path: Path) -> None:
    async def play() -> None:
        env = Env(tmp_path, certificate_of("member", 2, CA))
        await env.start()
        try:
            env.pool.send(0, 1, env.peer.endpoint, VOTE_REQUEST, 5000)
            await env.outcomes.of(1)
            foreign = new_authority("ca-9")
            shown = certificate_of("member", 2, foreign)
            write_folder(tmp_path / "shown", shown, CA.certificate)
            env.theirs.server.load_cert_chain(
                tmp_path / "shown" / "tls.crt", tmp_path / "shown" / "tls.key"
            )
            env.pool.renew()
            async with asyncio.timeout(5):
                await env.peer.writers[0].wait_closed()
            env.pool.send(0, 2, env.peer.endpoint, VOTE_REQUEST, 5000)
            assert await env.outcomes.of(2) is FailureReason.REFUSED
        finally:
            env.end()

    uvloop.run(play())


def test_connection_is_renewed_when_the_peer_must_be_verified_again(tmp_path: Path) -> None:
    async def play() -> None:
        shown = certificate_of("member", 2, CA)
        env = Env(tmp_path, shown)
        await env.start()
        env.pool.send(0, 1, env.peer.endpoint, VOTE_REQUEST, 5000)
        await env.outcomes.of(1)
        end = shown.certificate.not_valid_after_utc.timestamp()
        for number, before, connections in ((2, end - 1, 1), (3, end, 2)):
            env.pool.renew(proven_before=before)
            env.pool.send(0, number, env.peer.endpoint, VOTE_REQUEST, 5000)
            assert await env.outcomes.of(number) == ANSWER
            assert len(env.peer.writers) == connections
        env.end()

    uvloop.run(play())


def test_every_request_on_a_closed_connection_is_reported_as_failed(tmp_path: Path) -> None:
    async def play() -> None:
        begun = asyncio.Event()

        async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
            begun.set()

        env = Env(tmp_path, certificate_of("member", 2, CA), handle)
        await env.start()
        for number in range(3):
            env.pool.send(0, number, env.peer.endpoint, VOTE_REQUEST, 5000)
        await begun.wait()
        env.pool.renew()
        env.peer.writers[0].transport.abort()
        for number in range(3):
            assert await env.outcomes.of(number) is FailureReason.CLOSED
        env.end()

    uvloop.run(play())


def test_text_inside_of_a_trusted_block_does_not_stop_the_node(tmp_path: Path) -> None:
    """A bundle that users supply may have header lines in any language."""
    files = tls_files(tmp_path, certificate_of("member", 1, CA), CA.certificate)
    path, begin = tmp_path / "ca.crt", b"-----BEGIN CERTIFICATE-----\n"
    path.write_bytes(path.read_bytes().replace(begin, begin + "Subject: \u00c9tat\n\n".encode()))
    assert look_again(files)
    assert files.problem is None
    assert [each.subject for each in files.trust.certificates] == [CA.certificate.subject]  # type: ignore[union-attr]
