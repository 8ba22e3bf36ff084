"""The current certificate and trusted authorities of a port: files are read, checked, and made into contexts for new connections.

Owns the replacement: a set of files replaces the previous one as a whole, or not at all. Every new connection asks for the context. Open
connections stay until they are checked again.
"""

import contextlib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.tls.key_pairs import TrustBundle
from quorum_node.security.tls.material import (
    Contents,
    Held,
    Material,
    first_held,
    held_now,
    paths_of,
    why_others_refuse,
)
from quorum_node.security.tls.pem import MAX_PEM_BYTES
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.ssl_settings import PemFile, SslSettings
from quorum_node.security.tls.unreadable import UNREADABLE
from quorum_node.server.transport.tls_contexts import (
    Certificates,
    client_context,
    server_context,
)


def utc_now() -> datetime:
    """The clock of this host, which OpenSSL uses as well."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Prepared:
    """`contexts`: for accepted and for outgoing connections, if keys or certificates have changed."""

    held: Held
    own_problem: CertificateProblem | None
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None


class TlsFiles:
    """The files of one port. `node_id`: required in the certificate; None accepts any. Raises CertificateProblem."""

    def __init__(
        self,
        name: str,
        settings: SslSettings,
        node_id: int | None,
        asked: Certificates = Certificates.AS_CONFIGURED,
        clock: Callable[[], datetime] = utc_now,
        role: Role = Role.MEMBER,
    ) -> None:
        self.name = name
        self._role = role
        self.settings = settings
        self._node_id = node_id
        self._asked = asked
        self._clock = clock
        self.paths = paths_of(settings)
        try:
            held = first_held(settings, read_files(self.paths), clock(), node_id, role)
        except UNREADABLE as error:
            raise self._problem_of(error) from None
        self._server, self._client = self._contexts(held.material)
        self._held = held
        self._own_problem = self._why_others_refuse(held.material, clock())

    @property
    def server(self) -> ssl.SSLContext:
        """The context for a connection that is accepted now."""
        return self._server

    @property
    def client(self) -> ssl.SSLContext:
        """The context for a connection that is opened now."""
        return self._client

    @property
    def material(self) -> Material:
        """The keys and certificates of both contexts."""
        return self._held.material

    @property
    def trust(self) -> TrustBundle | None:
        """The trusted authorities."""
        return self._held.material.trust

    @property
    def identity(self) -> CertificateIdentity | None:
        """The identity in this node's certificate."""
        return self._held.material.identity

    @property
    def problem(self) -> CertificateProblem | None:
        """Why the present files are not used; None if they are."""
        return self._held.problem

    @property
    def own_problem(self) -> CertificateProblem | None:
        """Why others refuse this node's certificate, as of the last check."""
        return self._own_problem

    def prepare(self, contents: Contents) -> Prepared:
        """Check files that were read again, and make new contexts: some milliseconds. Changes nothing, so it may run in a thread."""
        now = self._clock()
        own = {path: contents.get(path) for path in self.paths}
        try:
            held = held_now(self._held, self.settings, own, now, self._node_id, self._role)
        except UNREADABLE as error:
            found = self._problem_of(error)
            held = replace(self._with_revoked(own, now), problem=found)
        contexts = None
        if held.material is not self._held.material:
            try:
                contexts = self._contexts(held.material)
            except CertificateProblem as problem:
                # What is revoked is checked after a handshake, so it needs no new context.
                revoked = held.material.revoked
                held = Held(self._held.material, held.seen, problem)
                if revoked != held.material.revoked:
                    held = replace(held, material=replace(held.material, revoked=revoked))
                    contexts = self._server, self._client
        return Prepared(held, self._why_others_refuse(held.material, now), contexts)

    def _with_revoked(self, contents: Contents, now: datetime) -> Held:
        """Of files with a name that can't be read only the revoked certificates are taken over, as if the others were missing."""
        source = self.settings.revoked
        if not isinstance(source, PemFile):
            return self._held
        found = {path: data if path == source.path else None for path, data in contents.items()}
        with contextlib.suppress(*UNREADABLE):
            return held_now(self._held, self.settings, found, now, self._node_id, self._role)
        return self._held

    def _why_others_refuse(self, material: Material, now: datetime) -> CertificateProblem | None:
        """The issuer's name is decoded only to look it up in revocation lists."""
        try:
            return why_others_refuse(material, now)
        except UNREADABLE as error:
            return self._problem_of(error)

    def _problem_of(self, error: Exception) -> CertificateProblem:
        """Names are decoded when they are compared, so that an error of one of them can appear late."""
        if isinstance(error, CertificateProblem):
            return error
        names = " or ".join(sorted(self.paths))
        text = f"has a certificate whose names can't be read ({type(error).__name__})"
        return CertificateProblem(ProblemKind.MALFORMED, names, text)

    def take(self, prepared: Prepared) -> bool:
        """Use what `prepare` returned. True if new connections use other keys or certificates from now on."""
        self._held, self._own_problem = prepared.held, prepared.own_problem
        if prepared.contexts is None:
            return False
        self._server, self._client = prepared.contexts
        return True

    def _contexts(self, material: Material) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        try:
            return (
                server_context(self.settings, material, self._asked),
                client_context(self.settings, material),
            )
        except OSError as error:
            # An ssl.SSLError, or no file descriptor or memory is left.
            reason = getattr(error, "reason", None) or error.strerror or str(error)
            text = f"can't be used by OpenSSL ({reason})"
            what = min(self.paths, default=self.name)
            raise CertificateProblem(ProblemKind.MALFORMED, what, text) from None


def read_files(paths: Iterable[str]) -> dict[str, bytes | None]:
    """The content of each file, up to a maximum size; None for one that can't be read."""
    return {path: _read(Path(path)) for path in sorted(paths)}


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PEM_BYTES + 1)
    except OSError:
        return None
