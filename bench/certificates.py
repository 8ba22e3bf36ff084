"""Certificates of a measured cluster: one authority, a folder for each member, and one for its clients.

Owns the files, in the formats of all systems: certificate and key apart (etcd), and in one PEM keystore (Kafka and our nodes). The certificates
are valid for an hour, so every round makes its own.
"""

import ssl
from pathlib import Path

from support.tls_quorum import certificate_of, client_context, new_authority, write_folder


class Certificates:
    """Each folder has `tls.crt`, `tls.key`, `keystore.pem` and `ca.crt`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._authority = new_authority()
        self.client = self._folder("admin", None)

    def member(self, number: int) -> Path:
        """The folder of a member; its certificate serves clients and peers."""
        return self._folder("member", number)

    def context(self) -> ssl.SSLContext:
        """Of a client with its certificate."""
        return client_context(self.client, self.client / "ca.crt")

    def _folder(self, role: str, number: int | None) -> Path:
        folder = self._root / (role if number is None else f"{role}-{number}")
        if not folder.exists():
            made = certificate_of(role, number, self._authority)
            write_folder(folder, made, self._authority.certificate)
        return folder
