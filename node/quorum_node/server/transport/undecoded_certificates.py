"""TLS objects that leave the peer's certificate in DER.

After every handshake the loop asks for the certificate as a dict (`get_extra_info("peercert")`). Python decodes its names as UTF-8 for
that, also those of a valid certificate whose names have another encoding, and then raises a UnicodeDecodeError, which the loop does not
count as a failed handshake. `tls_peers` reads the DER instead. Owns what an error of a handshake is. Must not know what a certificate means.
"""

import ssl
from typing import Any


class UnexpectedHandshake(ssl.SSLError):
    """What the peer sent can't be processed. `reason`: as OpenSSL names its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, f"{type(error).__name__}: {error}")
        self.reason = f"UNEXPECTED_{type(error).__name__.upper()}"


class UndecodedObject(ssl.SSLObject):
    """One side of a connection."""

    def getpeercert(self, binary_form: bool = False) -> Any:
        """See `ssl.SSLObject`; empty if the form is not binary, as for a certificate that was not verified."""
        return super().getpeercert(True) if binary_form else {}

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`. Raises UnexpectedHandshake instead of a ValueError: the loop takes only an OSError as a refusal."""
        try:
            super().do_handshake()
        except OSError:  # one kind of SSLError is a ValueError, too
            raise
        except ValueError as error:
            raise UnexpectedHandshake(error) from error


class UndecodedContext(ssl.SSLContext):
    """A context for outgoing connections."""

    sslobject_class = UndecodedObject
