"""A quorum of real processes with TLS on every port, with certificates made for it.

Owns the files: each node has a folder with `keystore.pem` and `ca.crt`, like a mounted Secret of Kubernetes. Requests use the certificate
of an administrator.
"""

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from cryptography import x509

from support.generated_certificates import Issued, authority, issue, key_pem, pem
from support.local_quorum import TOKEN, LocalNode, LocalQuorum

NAMESPACE, NAME = "ns", "demo"
HOURS = timedelta(hours=1)
A_RUN = 12 * HOURS
"""Certificates of modules are made when the tests are collected, and have to last until the run comes to them."""
POLL_MS = 100


def now() -> datetime:
    """OpenSSL uses the clock of the host."""
    return datetime.now(UTC)


def new_authority(name: str = "ca-1") -> Issued:
    """Valid at the present time."""
    return authority(name, start=now() - HOURS, end=now() + 24 * HOURS)


def certificate_of(
    role: str,
    node_id: int | None,
    issuer: Issued,
    *,
    start: timedelta = -HOURS,
    end: timedelta = A_RUN,
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
) -> Issued:
    """For a member, a broker or a client of the quorum."""
    ending = "" if node_id is None else f":{node_id}"
    return issue(
        f"{role}{ending.replace(':', '-')}",
        issuer=issuer,
        start=now() + start,
        end=now() + end,
        hosts=hosts,
        uris=(f"urn:metadataquorum:{NAMESPACE}:{NAME}:{role}{ending}",),
    )


def write_at_once(path: Path, data: bytes) -> None:
    """Replaces the file atomically, as in a mounted Secret: a reader sees the old or the new content."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def write_folder(folder: Path, made: Issued, *trusted: x509.Certificate) -> None:
    """`keystore.pem` and `ca.crt` for nodes, `tls.crt` and `tls.key` beside them for clients."""
    folder.mkdir(parents=True, exist_ok=True)
    write_at_once(folder / "ca.crt", pem(*trusted))
    write_at_once(folder / "tls.crt", pem(made.certificate))
    write_at_once(folder / "tls.key", key_pem(made.key))
    write_at_once(folder / "keystore.pem", made.keystore)


def client_context(folder: Path | None, ca: Path) -> ssl.SSLContext:
    """The context of a client with the certificate in a folder, or without one."""
    context = ssl.create_default_context(cafile=str(ca))
    if folder is not None:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


class TlsQuorum(LocalQuorum):
    """Every member presents a certificate, and requires one."""

    scheme = "https"
    makes_certificates = False

    def __init__(self, root: Path, nodes: int = 3, **options: object) -> None:
        self.root = root
        self.ca = new_authority()
        self.trusted = [self.ca.certificate]
        self.issue_for("admin", None)
        super().__init__(root, nodes, **options)  # type: ignore[arg-type]

    def folder(self, who: str) -> Path:
        """The folder of a node by its id, or of a client by its role."""
        return self.root / "tls" / who

    def issue_for(self, role: str, node_id: int | None, issuer: Issued | None = None) -> Issued:
        """Write another certificate into a holder's folder; the holder trusts the quorum's present authorities."""
        made = certificate_of(role, node_id, issuer or self.ca)
        who = role if node_id is None else str(node_id)
        write_folder(self.folder(who), made, *self.trusted)
        return made

    def trust(self, *certificates: x509.Certificate) -> None:
        """All trust these authorities from now on, and no others."""
        self.trusted = list(certificates)
        for folder in (self.root / "tls").iterdir():
            write_at_once(folder / "ca.crt", pem(*certificates))

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `LocalQuorum`."""
        self.issue_for("member", node.id)
        folder = self.folder(str(node.id))
        return {
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "listener.name.controller.ssl.keystore.location": str(folder / "keystore.pem"),
            "listener.name.controller.ssl.truststore.location": str(folder / "ca.crt"),
            "quorum.files.poll.ms": str(POLL_MS),
        }

    def make_client(self) -> httpx.Client:
        """See `LocalQuorum`."""
        return self.client_of("admin")

    def client_of(self, who: str | None) -> httpx.Client:
        """A client with the certificate in a folder, or without one."""
        ca = self.folder("admin") / "ca.crt"
        context = client_context(None if who is None else self.folder(who), ca)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(timeout=5.0, trust_env=False, verify=context, headers=headers)
