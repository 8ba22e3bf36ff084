"""Revoked certificates: serial numbers, one per line, or revocation lists in PEM (RFC 5280, section
5). PURE.

Owns both formats of the file, and their combination: lists, and serial numbers in lines `serial=…` between them. Other
lines between lists are ignored, as programs print text there. The file is as trusted as the truststore, so signatures
of lists are not checked: an authority can be removed from the truststore before its list. Lists don't expire either:
revoked certificates stay revoked.
"""

from dataclasses import dataclass, replace

from cryptography import x509

from quorum_node.security.tls.pem import MAX_PEM_BYTES, PemBlock, pem_blocks
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.unreadable import UNREADABLE

_LIST = "X509 CRL"
_SERIAL = b"serial="
_MAX_SERIAL_DIGITS = 40
"""RFC 5280, section 4.1.2.2: at most 20 octets."""


@dataclass(frozen=True, slots=True)
class RevokedCertificates:
    """`serials`: of any issuer. `by_issuer`: the issuer's name in DER, and a serial of its list."""

    serials: frozenset[int] = frozenset()
    by_issuer: frozenset[tuple[bytes, int]] = frozenset()

    def __len__(self) -> int:
        return len(self.serials) + len(self.by_issuer)

    def all_serials(self) -> list[int]:
        """The serials of all issuers."""
        return [*self.serials, *(serial for _, serial in self.by_issuer)]

    def holds(self, certificate: x509.Certificate) -> bool:
        """Whether this certificate is revoked."""
        serial = certificate.serial_number
        if serial in self.serials:
            return True
        return bool(self.by_issuer) and (
            (certificate.issuer.public_bytes(), serial) in self.by_issuer
        )


NONE_REVOKED = RevokedCertificates()


def load_revoked(data: bytes, what: str) -> RevokedCertificates:
    """Parse a file; an empty one revokes nothing.

    `what`: the file, for messages. Raises CertificateProblem.
    """
    if len(data) > MAX_PEM_BYTES:
        text = f"has more than {MAX_PEM_BYTES} bytes"
        raise CertificateProblem(ProblemKind.MALFORMED, what, text)
    if b"-----" in data:
        listed = _lists(pem_blocks(data, what), what)
        return replace(listed, serials=_beside_lists(data, what))
    if data and not data.endswith(b"\n"):
        text = "ends inside of a line: it is being written, or is truncated"
        raise CertificateProblem(ProblemKind.HALF_WRITTEN, what, text)
    lines = (line.partition(b"#")[0].strip() for line in data.splitlines())
    return RevokedCertificates(
        frozenset(_serial(line, number, what) for number, line in enumerate(lines, 1) if line)
    )


def _serial(line: bytes, number: int, what: str) -> int:
    """A serial in hexadecimal digits, as in the node's log and `openssl x509 -serial`.

    Colons and `serial=` are ignored.
    """
    digits = line.removeprefix(_SERIAL).replace(b":", b"").lower()
    if digits.isalnum() and len(digits.lstrip(b"0")) <= _MAX_SERIAL_DIGITS:
        try:
            return int(digits, 16)
        except ValueError:
            pass
    # The line is not shown: with a wrong path, or a wrong key of a Secret, it may be a token.
    text = f"has a line {number} that is not a serial in hexadecimal digits"
    raise CertificateProblem(ProblemKind.MALFORMED, what, text)


def _beside_lists(data: bytes, what: str) -> frozenset[int]:
    """Serials in lines `serial=…` between lists."""
    lines = data.splitlines()
    if lines[-1].startswith(_SERIAL) and not data.endswith(b"\n"):
        text = "ends inside of a line: it is being written, or was cut off"
        raise CertificateProblem(ProblemKind.HALF_WRITTEN, what, text)
    return frozenset(
        _serial(line.partition(b"#")[0].strip(), number, what)
        for number, line in enumerate(lines, 1)
        if line.startswith(_SERIAL)
    )


def _lists(blocks: tuple[PemBlock, ...], what: str) -> RevokedCertificates:
    found: set[tuple[bytes, int]] = set()
    for block in blocks:
        if block.label != _LIST:
            text = f"holds a block {block.label}: only blocks {_LIST} are permitted"
            raise CertificateProblem(ProblemKind.MALFORMED, what, text)
        found |= _listed(block, what)
    return RevokedCertificates(by_issuer=frozenset(found))


def _listed(block: PemBlock, what: str) -> set[tuple[bytes, int]]:
    try:
        read = x509.load_der_x509_crl(block.der)
        critical = [each.oid.dotted_string for each in read.extensions if each.critical]
        if critical:
            # Such a list covers some certificates only, or is a delta to another list (RFC 5280,
            # section 5.2).
            text = f"holds a list with the critical extension {critical[0]}, which is not supported"
            raise CertificateProblem(ProblemKind.MALFORMED, what, text)
        issuer = read.issuer.public_bytes()
        return {(issuer, each.serial_number) for each in read}
    except UNREADABLE as error:
        if isinstance(error, CertificateProblem):
            raise
        text = f"holds a list that can't be read ({type(error).__name__})"
        raise CertificateProblem(ProblemKind.MALFORMED, what, text) from None
