"""Errors that the cryptography library raises for certificates and revocation lists. PURE.

Some of them are not a ValueError, and are raised only when an extension is read.
"""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Raised for a certificate or list that is damaged, or has content that the library does not support."""


def read_certificate(der: bytes) -> x509.Certificate:
    """A certificate whose extensions can be read. Raises one of UNREADABLE."""
    found = x509.load_der_x509_certificate(der)
    found.extensions  # noqa: B018 # parsed when first asked for
    return found
