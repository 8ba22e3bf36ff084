"""Blocks of PEM (RFC 7468), as Kafka reads them: with any text around and any blanks within. PURE."""

import base64
import binascii
import re
from dataclasses import dataclass, field

from quorum_node.security.tls.problems import CertificateProblem, ProblemKind

MAX_PEM_BYTES = 1 << 20
"""Far more than a chain or a bundle needs. It limits the size if a path is wrong."""
_LINE = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]+)-----")
_STRAY = re.compile(rb"^[ \t]*-", re.MULTILINE)
"""Remainder of a truncated line of hyphens."""
_HEADER = re.compile(rb"^[^\r\n:]+:[^\r\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PemBlock:
    """`label`: such as CERTIFICATE. `text`: the block, for further use."""

    label: str
    der: bytes = field(repr=False)
    text: bytes = field(repr=False)
    has_headers: bool = False
    """Lines like `Proc-Type: 4,ENCRYPTED`, of keys in an old form."""


def pem_blocks(data: bytes, what: str) -> tuple[PemBlock, ...]:
    """Every block, in order. `what`: the file or the key, for messages. Raises CertificateProblem."""
    if len(data) > MAX_PEM_BYTES:
        raise CertificateProblem(
            ProblemKind.MALFORMED, what, f"has more than {MAX_PEM_BYTES} bytes"
        )
    blocks: list[PemBlock] = []
    opened: re.Match[bytes] | None = None
    for line in _LINE.finditer(data):
        if line[1] == b"BEGIN" and opened is None:
            opened = line
        elif line[1] == b"END" and opened is not None and line[2] == opened[2]:
            blocks.append(_block(data, opened, line, what))
            opened = None
        else:
            raise _cut(what, (opened or line)[2].decode())
    if opened is not None:
        raise _cut(what, opened[2].decode())
    if _STRAY.search(_LINE.sub(b"", data)):
        raise _cut(what, "that begins or ends there")
    if not blocks and data.strip():
        raise CertificateProblem(ProblemKind.MALFORMED, what, "holds no PEM block")
    if not blocks:
        raise CertificateProblem(ProblemKind.HALF_WRITTEN, what, "is empty")
    return tuple(blocks)


def _block(data: bytes, opened: re.Match[bytes], closed: re.Match[bytes], what: str) -> PemBlock:
    content = data[opened.end() : closed.start()]
    body = b"".join(_HEADER.sub(b"", content).split())
    label = opened[2].decode()
    try:
        der = base64.b64decode(body, validate=True)
    except binascii.Error:
        raise CertificateProblem(
            ProblemKind.MALFORMED, what, f"has a block {label} that is not base64"
        ) from None
    if not der:
        raise CertificateProblem(ProblemKind.MALFORMED, what, f"has an empty block {label}")
    return PemBlock(label, der, data[opened.start() : closed.end()] + b"\n", b":" in content)


def _cut(what: str, label: str) -> CertificateProblem:
    text = f"ends inside of a block {label}: it is being written, or is truncated"
    return CertificateProblem(ProblemKind.HALF_WRITTEN, what, text)
