"""The TLS files of one port in a folder, in the layout that a node reads, for tests with handshakes within one process."""

from pathlib import Path

from cryptography import x509

from quorum_node.configuration.listener_config import TlsConfig
from quorum_node.security.tls.ssl_settings import REVOKED_KEY, read_ssl_settings
from quorum_node.server.transport.tls_contexts import Certificates
from quorum_node.server.transport.tls_files import TlsFiles, read_files
from support.generated_certificates import Issued
from support.tls_quorum import write_folder

CONFIG = TlsConfig(handshake_timeout_ms=3000, handshakes_max=4)


def tls_files(
    folder: Path,
    made: Issued,
    *trusted: x509.Certificate,
    node_id: int | None = None,
    asked: Certificates = Certificates.AS_CONFIGURED,
    revoked: x509.Certificate | None = None,
    **properties: str,
) -> TlsFiles:
    """The certificate and the trusted authorities of a port. `node_id`: required in its certificate. `revoked`: a certificate to refuse."""
    write_folder(folder, made, *trusted)
    if revoked is not None:
        (folder / "revoked").write_text(f"{revoked.serial_number:x}\n")
    settings = {
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "ssl.truststore.location": str(folder / "ca.crt"),
        **{f"ssl.{key.replace('_', '.')}": value for key, value in properties.items()},
        **({} if revoked is None else {REVOKED_KEY: str(folder / "revoked")}),
    }
    return TlsFiles("CONTROLLER", read_ssl_settings(settings, "CONTROLLER"), node_id, asked)


def look_again(files: TlsFiles) -> bool:
    """Read the files again, as a node does periodically; True if other files are used from now on."""
    return files.take(files.prepare(read_files(files.paths)))
