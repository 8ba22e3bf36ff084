"""Valid certificates whose names are not UTF-8, so that Python can't decode them. Must not know who refuses them."""

from support.generated_certificates import Issued, issue
from support.tls_quorum import A_RUN, HOURS, now


def _der(tag: int, *content: bytes) -> bytes:
    joined = b"".join(content)
    return bytes([tag, len(joined)]) + joined


_NAMES = "2.5.29.17"
_LISTS = "2.5.29.31"
_AUTHORITY = "1.3.6.1.5.5.7.1.1"
_OCSP = _der(6, bytes([0x2B, 6, 1, 5, 5, 7, 0x30, 1]))
_URI = _der(0x86, b"http://a\xff")
EXTENSIONS = {
    "dns": (_NAMES, _der(0x30, _der(0x82, b"a\xff.b"))),
    "uri": (_NAMES, _der(0x30, _URI)),
    "email": (_NAMES, _der(0x30, _der(0x81, "müller@example.org".encode("latin-1")))),
    "crl": (_LISTS, _der(0x30, _der(0x30, _der(0xA0, _der(0xA0, _URI))))),
    "ocsp": (_AUTHORITY, _der(0x30, _der(0x30, _OCSP, _URI))),
}
"""The name's place, with the OID and the value of its extension."""


def undecodable(place: str, issuer: Issued) -> Issued:
    """A certificate of this authority. `place`: of EXTENSIONS."""
    start, end = now() - HOURS, now() + A_RUN
    further = dict([EXTENSIONS[place]])
    return issue("unusual", issuer=issuer, start=start, end=end, hosts=(), further=further)
