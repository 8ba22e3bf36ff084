"""Whether members accept a certificate: by a handshake in memory, which OpenSSL decides as it does in a member.

A certificate may have a trusted issuer and the right names, and still be refused: for its usages, for the names that
its authority may certify, for a weak key. Times do not count here, because they are compared with the API server's
clock.
"""

import hashlib
import ssl

from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import Read
from quorum_operator.pod_client import load_pair

_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL (X509_VERIFY_PARAM_set_flags), which Python has no name for."""
_MOST_ROUNDS = 8
_MOST_KNOWN = 4096
_known: dict[bytes, str | None] = {}
"""Results by a digest of the certificates. A key has no effect on them, and is not kept."""


def rejection(pair: Pair, trusted: Read, *, serves: bool) -> str | None:
    """Why a process that trusts this authority refuses the certificate; None if it accepts it.

    `serves`: it is also verified as that of a server, as among members. The others are only clients.
    """
    inputs = "\0".join((pair.chain_pem, trusted.pem, str(serves)))
    digest = hashlib.sha256(inputs.encode()).digest()
    if digest not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[digest] = _refused(pair, trusted, serves=serves)
    return _known[digest]


def _refused(pair: Pair, trusted: Read, *, serves: bool) -> str | None:
    try:
        client = _context(ssl.PROTOCOL_TLS_CLIENT, pair, trusted)
        server = _context(ssl.PROTOCOL_TLS_SERVER, pair, trusted)
        client.check_hostname = False
        client.verify_mode = ssl.CERT_REQUIRED if serves else ssl.CERT_NONE
        server.verify_mode = ssl.CERT_REQUIRED
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    except ssl.SSLError as error:
        return str(error.reason or error)
    return None


def _context(protocol: int, pair: Pair, trusted: Read) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    flags = ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    context.verify_flags |= flags
    context.load_verify_locations(cadata=trusted.pem)
    load_pair(context, pair.chain_pem, pair.key_pem)
    return context


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MOST_ROUNDS):
        ends = [each for each in ends if not _is_done(each)]
        if not ends:
            return
    raise ssl.SSLError("the handshake does not end")


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
