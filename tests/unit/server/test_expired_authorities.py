"""A connection does not outlive the trusted authority that has issued its certificate, which may expire first."""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quorum_node.server.listener import tls_authentication
from quorum_node.server.listener.port_authentication import PeerIdentity
from quorum_node.server.listener.revalidation import Revalidation
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.transport.tls_files import TlsFiles
from quorum_node.server.transport.tls_peers import chain_of, check_dialled
from support.generated_certificates import Issued, authority, issue, pem
from support.tls_folder import CONFIG, tls_files
from support.tls_port import Reports
from support.tls_quorum import HOURS, certificate_of, now

BRIEF = authority("brief", start=now() - HOURS, end=now() + 2 * HOURS)
RENEWED = issue(
    "brief",
    key=BRIEF.key,
    authority=True,
    start=now() - HOURS,
    end=now() + 8 * HOURS,
    hosts=(),
    usages=None,
)
"""The same authority with the same key."""
LOWER = authority("lower", issuer=BRIEF, start=now() - HOURS, end=now() + 4 * HOURS)


class BelowLower(Issued):
    """A certificate with its chain."""

    @property
    def keystore(self) -> bytes:
        """Key, certificate, and its issuer's."""
        return super().keystore + pem(LOWER.certificate)


MEMBER = certificate_of("member", 2, BRIEF, end=6 * HOURS)
_BELOW = certificate_of("member", 2, LOWER, end=6 * HOURS)
BELOW = BelowLower(_BELOW.certificate, _BELOW.key)
HOST = "127.0.0.1"


def connected(files: TlsFiles) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """The server's and the client's end of a connection of this port with itself."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = files.client.wrap_bio(to_client, to_server, server_hostname=HOST)
    server = files.server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for each in tuple(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
    return server, client


@pytest.mark.parametrize(
    ("shown", "above", "trusted", "issuer"),
    [
        (MEMBER, (), (BRIEF,), BRIEF),
        (BELOW, (LOWER,), (BRIEF,), BRIEF),
        (BELOW, (), (LOWER,), LOWER),
    ],
    ids=["root", "root above an intermediate", "intermediate"],
)
def test_peer_is_proven_until_the_trusted_authority_expires(
    tmp_path: Path,
    shown: Issued,
    above: tuple[Issued, ...],
    trusted: tuple[Issued, ...],
    issuer: Issued,
) -> None:
    """Its own certificate is valid for longer. Both who accepts and who dials looks at all of the chain."""
    files = tls_files(tmp_path, shown, *(each.certificate for each in trusted))
    ends = issuer.certificate.not_valid_after_utc.timestamp()
    for connection in connected(files):
        found = chain_of(connection, files.trust)
        assert found is not None
        assert found.certificate == shown.certificate
        assert found.intermediates == tuple(each.certificate for each in above)
        assert found.not_after == ends
        assert check_dialled(found, HOST, 2, files, now()) == ends


@dataclass
class Connection:
    """A connection of a listener."""

    identity: PeerIdentity
    retired: bool = False

    def retire(self) -> None:
        self.retired = True


class Transport(asyncio.Transport):
    """The end of a connection whose handshake is done."""

    def __init__(self, connection: ssl.SSLObject) -> None:
        super().__init__()
        self._connection = connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection if name == "ssl_object" else default


@pytest.mark.parametrize(
    ("trusted", "stays"), [((BRIEF,), False), ((BRIEF, RENEWED), True)], ids=["alone", "renewed"]
)
def test_connection_is_closed_when_the_authority_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: tuple[Issued, ...], stays: bool
) -> None:
    """Unless the same authority is trusted for longer by a newer certificate."""
    files, reports = tls_files(tmp_path, MEMBER, *(e.certificate for e in trusted)), Reports()
    port = TlsAuthentication("TOOLS", files, CONFIG, reports, lambda reason: None)
    server, _ = connected(files)
    identity = port.authenticate(Transport(server), HOST)
    assert identity is not None
    connection, time = Connection(identity), now()

    async def sweep_at(then: datetime) -> None:
        monkeypatch.setattr(tls_authentication, "utc_now", lambda: then)
        loop = asyncio.get_running_loop()
        Revalidation(loop, port, lambda: [connection], then.timestamp).sweep()
        await asyncio.sleep(0)

    asyncio.run(sweep_at(time + HOURS))
    assert not connection.retired
    asyncio.run(sweep_at(time + 2 * HOURS + timedelta(minutes=5)))
    assert connection.retired != stays
    assert any("whose issuer is not trusted any more" in each for each in reports.told) != stays
