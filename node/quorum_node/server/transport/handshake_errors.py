"""Translates OpenSSL's reasons for a failed handshake into messages for an operator."""

import ssl

_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and this listener requires one (ssl.client.auth)",
    "HANDSHAKE_TOO_LARGE": "its handshake has more than 16 KiB: it sends too many or too large certificates",
    "HTTP_REQUEST": "it speaks HTTP in clear text; this port speaks TLS",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP in clear text; this port speaks TLS",
    "WRONG_VERSION_NUMBER": "it does not use TLS: is it configured as PLAINTEXT?",
    "RECORD_LAYER_FAILURE": "it does not use TLS: is it configured as PLAINTEXT?",
    "UNSUPPORTED_PROTOCOL": "it offers no version of TLS that is enabled here (ssl.enabled.protocols)",
    "NO_SHARED_CIPHER": "it offers no cipher suite that is enabled here (ssl.cipher.suites)",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection during the handshake",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of this node's certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a certificate, and this node sent none",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this node's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this node's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this node's certificate",
    "TLSV1_ALERT_ACCESS_DENIED": "it does not accept this node's certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it accepts no version of TLS that is enabled here (ssl.enabled.protocols)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refused the handshake: no version or cipher suite in common, or no certificate",
}
_UNKNOWN_AUTHORITY = "its certificate was not issued by an authority in the truststore"
_VERIFY_WORDS = {
    9: "its certificate is not valid yet: check the clocks",
    10: "its certificate has expired; if it was valid, check the clocks",
    18: "its certificate is self-signed, and is not in the truststore",
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    26: "its certificate may not be used for this purpose (extended key usage)",
}
"""Messages by the numbers of X509_V_ERR."""


def why_handshake_failed(error: BaseException) -> str:
    """The reason, as a statement about the peer ("it ...")."""
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _VERIFY_WORDS.get(error.verify_code)
        return known or f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return _WORDS.get(reason) or f"the handshake failed ({reason or error})"
    if isinstance(error, TimeoutError) or "taking longer than" in str(error):
        return "the handshake timed out (quorum.handshake.timeout.ms)"
    if isinstance(error, OSError):
        return "it closed the connection during the handshake"
    return str(error)
