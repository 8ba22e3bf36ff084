"""TLS settings of a client: from a folder of PEM files, or from Kafka's `--command-config`.

Owns where the files are, and the messages about files that can't be used. Files are read again for
every context, so a long-running program presents a renewed certificate on its next connection.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.client_sasl import ClientSasl, ClientSaslError, sasl_of
from quorum_node.java_properties import parse_properties

_PREFIX = "ssl."
_PROTOCOL = "security.protocol"
_KEYSTORE, _TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"
_TYPES = ("ssl.keystore.type", "ssl.truststore.type")
_PASSWORD, _HOST_CHECK = "ssl.key.password", "ssl.endpoint.identification.algorithm"
_KNOWN = frozenset({_PROTOCOL, _KEYSTORE, _TRUSTSTORE, *_TYPES, _PASSWORD, _HOST_CHECK})

_WITH_TLS = {"PLAINTEXT": False, "SSL": True, "SASL_PLAINTEXT": False, "SASL_SSL": True}
"""Values of `security.protocol`, and whether they use TLS."""


class ClientTlsError(ValueError):
    """Files or settings that can't be used. The message contains no part of a key."""


class ClientSettingsError(ClientTlsError):
    """Settings that are malformed, not supported, or contradict each other: the user has to write them differently."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """`authorities`: PEM of the trusted authorities. `chain`, `key`: PEM, possibly the same file.

    Without `chain` the client presents no certificate and needs the admin token.
    """

    authorities: Path
    chain: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_host: bool = True

    def context(self) -> ssl.SSLContext:
        """A context for the next connection. Raises ClientTlsError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(str(self.authorities))
        except OSError as error:  # an SSLError, too
            raise ClientTlsError(
                f"{self.authorities}: no trusted certificates can be read from it ({_why(error)})"
            ) from None
        if self.chain is not None:
            # With a password of None, OpenSSL would prompt for it at the terminal.
            password = self.key_password or ""
            try:
                context.load_cert_chain(self.chain, self.key, lambda: password)
            except OSError as error:
                raise ClientTlsError(
                    f"{self.chain}: no certificate and private key can be read from it ({_why(error)})"
                ) from None
        return context


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Security of a Kafka connection. `tls` None: clear text; `sasl` None: no login."""

    tls: ClientTls | None = None
    sasl: ClientSasl | None = None


def tls_of_folder(folder: Path) -> ClientTls:
    """The settings from `tls.crt`, `tls.key` and `ca.crt`, as Kubernetes mounts a Secret. `ca.crt` alone
    is enough. Raises ClientTlsError.
    """
    chain, key, authorities = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
    if not authorities.is_file():
        raise ClientTlsError(f"{folder}: ca.crt, the file of the trusted authorities, is missing")
    if chain.is_file() != key.is_file():
        there, missing = ("tls.crt", "tls.key") if chain.is_file() else ("tls.key", "tls.crt")
        raise ClientTlsError(f"{folder}: there is {there}, and no {missing}")
    return ClientTls(authorities, chain, key) if chain.is_file() else ClientTls(authorities)


def tls_of_options(folder: Path | None, command_config: Path | None) -> ClientTls | None:
    """The settings from the options `--tls` and `--command-config`; None: clear text. Raises
    ClientTlsError, and ClientSettingsError for wrong settings.
    """
    if folder is not None and command_config is not None:
        raise ClientSettingsError("--tls and --command-config can't be combined: give one of them")
    if command_config is not None:
        return tls_of_command_config(command_config)
    return tls_of_folder(folder) if folder is not None else None


def tls_of_command_config(path: Path) -> ClientTls | None:
    """The settings from a properties file for Kafka's tools, with PEM stores; None for PLAINTEXT.
    Raises ClientTlsError.
    """
    return _tls_of(path, _told(path), ("PLAINTEXT", "SSL"))


def security_of_command_config(path: Path) -> ClientSecurity:
    """TLS and SASL settings of such a file, for a listener of Kafka's protocol. Raises
    ClientTlsError.
    """
    told = _told(path)
    tls = _tls_of(path, told, tuple(_WITH_TLS))
    if not _protocol_of(told).startswith("SASL_"):
        return ClientSecurity(tls)
    try:
        return ClientSecurity(tls, sasl_of(told))
    except ClientSaslError as error:
        raise ClientTlsError(f"{path}: {error}") from None


def _told(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except OSError as error:
        raise ClientTlsError(f"{path}: can't be read: {_why(error)}") from None
    except UnicodeDecodeError:
        raise ClientSettingsError(f"{path}: is not a text in UTF-8") from None
    try:
        return parse_properties(text, unique=True)
    except ValueError as error:
        raise ClientSettingsError(f"{path}: {error}") from None


def _protocol_of(told: Mapping[str, str]) -> str:
    return told.get(_PROTOCOL, "PLAINTEXT").strip().upper()


def _tls_of(path: Path, told: Mapping[str, str], served: tuple[str, ...]) -> ClientTls | None:
    for key in told:
        if key.startswith(_PREFIX) and key not in _KNOWN:
            known = ", ".join(sorted(each for each in _KNOWN if each.startswith(_PREFIX)))
            raise ClientSettingsError(
                f"{path}: {key} is not supported; supported keys of {_PREFIX}*: {known}"
            )
    protocol = _protocol_of(told)
    if protocol not in served:
        raise ClientSettingsError(f"{path}: {_PROTOCOL}={protocol}: write {' or '.join(served)}")
    if not _WITH_TLS[protocol]:
        return None
    for key in _TYPES:
        if told.get(key, "PEM").strip().upper() != "PEM":
            raise ClientSettingsError(f"{path}: {key}={told[key]}: only PEM is supported")
    if not told.get(_TRUSTSTORE):
        raise ClientSettingsError(
            f"{path}: {_TRUSTSTORE} is not set: name a file with the trusted authorities"
        )
    keystore = Path(told[_KEYSTORE]) if told.get(_KEYSTORE) else None
    return ClientTls(
        Path(told[_TRUSTSTORE]),
        keystore,
        keystore,
        told.get(_PASSWORD) or None,
        checks_host=_checks_host(path, told),
    )


def _checks_host(path: Path, told: Mapping[str, str]) -> bool:
    """A misspelt value must not disable the check. An empty one does, as in Kafka."""
    text = told.get(_HOST_CHECK, "https").strip()
    if text.lower() not in ("https", "", "none"):
        raise ClientSettingsError(
            f"{path}: {_HOST_CHECK}={text}: write https, or nothing or none to accept any name"
        )
    return text.lower() == "https"


_WORDS = {
    "KEY_VALUES_MISMATCH": "the key does not match the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "it holds no certificate",
    "PEM lib": "a file is being written, is truncated, is not PEM, or has another password",
}
"""Messages by parts of OpenSSL's reasons."""


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return next((text for part, text in _WORDS.items() if part in reason), reason)
    return error.strerror or str(error)
