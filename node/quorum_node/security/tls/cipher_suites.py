"""`ssl.cipher.suites`: converts names of Java and the IANA to OpenSSL's. PURE."""

from dataclasses import dataclass

from quorum_node.security.errors import SecuritySettingError

TLS_1_3_SUITES = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
TLS_1_2_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
}
"""Suites with forward secrecy and authenticated encryption, by OpenSSL's names."""


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """`openssl`: for `SSLContext.set_ciphers`, which affects TLS 1.2 only; empty: OpenSSL's default."""

    openssl: str = ""


def parse_cipher_suites(text: str, key: str, versions: frozenset[str]) -> CipherSuites:
    """The configured suites for the enabled versions. Raises SecuritySettingError.

    Python can't select among the three suites of TLS 1.3. So a list that lacks one of them is
    refused, not ignored.
    """
    names = [each.strip() for each in text.split(",") if each.strip()]
    if not names:
        return CipherSuites()
    unknown = [each for each in names if each not in TLS_1_3_SUITES and each not in TLS_1_2_SUITES]
    if unknown:
        known = ", ".join((*sorted(TLS_1_3_SUITES), *TLS_1_2_SUITES))
        raise SecuritySettingError(key, f"{unknown[0]} is none of {known}", text)
    older = [TLS_1_2_SUITES[each] for each in names if each in TLS_1_2_SUITES]
    if "TLSv1.3" in versions and not set(names) >= TLS_1_3_SUITES:
        missing = ", ".join(sorted(TLS_1_3_SUITES - set(names)))
        why = f"the suites of TLSv1.3 can't be chosen here: add {missing}, or enable TLSv1.2 alone"
        raise SecuritySettingError(key, why, text)
    if "TLSv1.2" in versions and not older:
        raise SecuritySettingError(
            key, "none of these is a suite of TLSv1.2, which is enabled", text
        )
    return CipherSuites(":".join(dict.fromkeys(older)))
