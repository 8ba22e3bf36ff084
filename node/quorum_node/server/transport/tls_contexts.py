"""OpenSSL contexts, made of keys and certificates that were checked before.

Owns their options. Every change creates a new context: OpenSSL would keep a pair that does not match, and can't remove a trusted
certificate. Must not know files or connections.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator
from enum import Enum

from quorum_node.security.tls.material import Material
from quorum_node.security.tls.ssl_settings import ClientAuth, SslSettings, TlsVersion
from quorum_node.server.transport.bounded_handshake import BoundedContext
from quorum_node.server.transport.undecoded_certificates import UndecodedContext

_OLDEST = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}


class Certificates(Enum):
    """Whether a server requires client certificates, if not by `ssl.client.auth`."""

    AS_CONFIGURED = "as configured"
    OPTIONAL = "optional"
    """A certificate is verified if there is one; clients without one can authenticate in another way."""


def server_context(
    settings: SslSettings, material: Material, asked: Certificates = Certificates.AS_CONFIGURED
) -> ssl.SSLContext:
    """The context for accepted connections. Raises ssl.SSLError if OpenSSL refuses the settings, a key or a certificate."""
    context = _prepared(BoundedContext(ssl.PROTOCOL_TLS_SERVER), settings, material)
    # With a session ticket, a client could reconnect after its certificate has expired.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    if asked is Certificates.OPTIONAL:
        context.verify_mode = ssl.CERT_OPTIONAL
    elif settings.client_auth is ClientAuth.REQUIRED:
        context.verify_mode = ssl.CERT_REQUIRED
    else:
        context.verify_mode = ssl.CERT_NONE
    return context


def client_context(settings: SslSettings, material: Material) -> ssl.SSLContext:
    """The context for outgoing connections. The host name is compared later (`check_dialled`), with its own error messages.

    Raises ssl.SSLError if OpenSSL refuses the settings, a key or a certificate.
    """
    context = _prepared(UndecodedContext(ssl.PROTOCOL_TLS_CLIENT), settings, material)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _prepared(context: ssl.SSLContext, settings: SslSettings, material: Material) -> ssl.SSLContext:
    versions = [_OLDEST[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.cipher_suites.openssl:
        context.set_ciphers(settings.cipher_suites.openssl)
    if material.trust is not None:
        # As in Java, an authority in the bundle is trusted even if another one issued it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=material.trust.pem.decode())
    with _in_memory(material.pair.key_pem + material.pair.chain_pem) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path to these bytes in memory, not on a disk: OpenSSL loads keys only from files."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
