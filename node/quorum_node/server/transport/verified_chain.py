"""The authorities above a peer's certificate, of the chain that OpenSSL has verified in the handshake.

Owns how Python is asked for that chain: by a method that is public since 3.13.
"""

import ssl
from _ssl import ENCODING_DER

from cryptography import x509

from quorum_node.security.tls.unreadable import read_certificate


def authorities(connection: ssl.SSLObject | ssl.SSLSocket) -> tuple[x509.Certificate, ...]:
    """Those of a verified connection, from the issuer of the peer's certificate to a trusted one. Raises one of UNREADABLE."""
    _, *issuers = _verified(connection) or [b""]
    return tuple(map(read_certificate, issuers))


def _verified(connection: ssl.SSLObject | ssl.SSLSocket) -> list[bytes]:
    """The certificates in DER, the peer's own first; empty if none was asked for."""
    public = getattr(connection, "get_verified_chain", None)
    if public is not None:
        return list(public() or ())
    chain = connection._sslobj.get_verified_chain()  # type: ignore[union-attr] # noqa: SLF001
    return [each.public_bytes(ENCODING_DER) for each in chain or ()]
