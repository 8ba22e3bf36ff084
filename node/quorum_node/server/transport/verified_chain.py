"""The authorities between a peer's certificate and a trusted one, of the chain that OpenSSL has verified in the handshake.

Owns how Python is asked for that chain: by a method that is public since 3.13.
"""

import ssl
from _ssl import ENCODING_DER

from cryptography import x509

from quorum_node.security.tls.key_pairs import TrustBundle
from quorum_node.security.tls.unreadable import read_certificate


def intermediates(
    connection: ssl.SSLObject | ssl.SSLSocket, trust: TrustBundle | None
) -> tuple[x509.Certificate, ...]:
    """Those of a verified connection; none if a trusted authority has issued the certificate. Raises one of UNREADABLE."""
    _, *issuers = _verified(connection) or [b""]
    found = tuple(map(read_certificate, issuers))
    trusted = () if trust is None else trust.certificates
    return tuple(each for each in found if each not in trusted)


def _verified(connection: ssl.SSLObject | ssl.SSLSocket) -> list[bytes]:
    """The certificates in DER, the peer's own first; empty if none was asked for."""
    public = getattr(connection, "get_verified_chain", None)
    if public is not None:
        return list(public() or ())
    chain = connection._sslobj.get_verified_chain()  # type: ignore[union-attr] # noqa: SLF001
    return [each.public_bytes(ENCODING_DER) for each in chain or ()]
