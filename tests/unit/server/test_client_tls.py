"""The TLS settings of clients: a folder, or Kafka's properties; and a clear message for unusable ones."""

import ssl
from pathlib import Path

import pytest

from quorum_node.client_tls import ClientTlsError, tls_of_command_config, tls_of_folder
from quorum_node.quorumctl.client import AdminClient
from support.generated_certificates import key_pem, pem
from support.tls_quorum import certificate_of, new_authority, write_folder

CA = new_authority()
MADE = certificate_of("admin", None, CA)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "tls", MADE, CA.certificate)
    return tmp_path / "tls"


def test_tls_folder_with_all_three_files_is_loaded(folder: Path) -> None:
    context = tls_of_folder(folder).context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1


def test_tls_folder_with_authorities_only_presents_no_certificate(folder: Path) -> None:
    (folder / "tls.crt").unlink()
    (folder / "tls.key").unlink()
    assert tls_of_folder(folder).chain is None
    tls_of_folder(folder).context()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("ca.crt", None, "ca.crt, the file of the trusted authorities, is missing"),
        ("tls.key", None, "there is tls.crt, and no tls.key"),
        ("ca.crt", b"nothing", "no trusted certificates can be read from it"),
        ("tls.crt", b"nothing", "no certificate and private key can be read from it"),
        ("tls.key", key_pem(new_authority().key), "the key does not match the certificate"),
        ("tls.crt", pem(MADE.certificate)[:-30], "is being written, is truncated"),
        ("tls.key", key_pem(MADE.key)[:-30], "is being written, is truncated"),
        ("tls.key", b"", "is being written, is truncated"),
        ("ca.crt", pem(MADE.certificate)[:-30], "is being written, is truncated"),
        ("ca.crt", b"", "it holds no certificate"),
        (
            "tls.key",
            key_pem(MADE.key, "hush"),
            "no certificate and private key can be read from it",
        ),
    ],
)
def test_invalid_tls_folder_is_reported(
    name: str, content: bytes | None, why: str, folder: Path
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ClientTlsError, match=why) as raised:
        tls_of_folder(folder).context()
    assert str(folder) in str(raised.value)


def config(folder: Path, **changes: str | None) -> Path:
    settings: dict[str, str | None] = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "ssl.truststore.location": str(folder / "ca.crt"),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    path = folder / "client.properties"
    path.write_text(
        "".join(f"{key}={value}\n" for key, value in settings.items() if value is not None)
    )
    return path


def test_properties_of_the_kafka_tools_are_accepted(folder: Path) -> None:
    found = tls_of_command_config(config(folder, request_timeout_ms="1000"))
    assert found is not None
    assert found.context().check_hostname
    unchecked = tls_of_command_config(config(folder, ssl_endpoint_identification_algorithm=""))
    assert unchecked is not None
    assert not unchecked.context().check_hostname
    assert tls_of_command_config(config(folder, security_protocol="PLAINTEXT")) is None


def test_encrypted_key_is_decrypted_with_its_password_which_is_never_shown(folder: Path) -> None:
    (folder / "keystore.pem").write_bytes(
        key_pem(MADE.key, "hush-hush") + (folder / "tls.crt").read_bytes()
    )
    found = tls_of_command_config(config(folder, ssl_key_password="hush-hush"))
    assert found is not None
    found.context()
    assert "hush" not in repr(found)
    wrong = tls_of_command_config(config(folder, ssl_key_password="hush-hush-hush"))
    assert wrong is not None
    with pytest.raises(ClientTlsError) as raised:
        wrong.context()
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ssl_keystore_type": "JKS"}, "ssl.keystore.type=JKS: only PEM is supported"),
        ({"security_protocol": "SASL_SSL"}, "security.protocol=SASL_SSL: write PLAINTEXT or SSL"),
        ({"ssl_truststore_location": None}, "ssl.truststore.location is not set"),
        (
            {"ssl_endpoint_identification_algorithm": "htttps"},
            "ssl.endpoint.identification.algorithm=htttps: write https",
        ),
        ({"ssl_trustmanager_algorithm": "PKIX"}, "ssl.trustmanager.algorithm is not supported"),
    ],
)
def test_invalid_tls_properties_are_reported(
    changes: dict[str, str | None], why: str, folder: Path
) -> None:
    with pytest.raises(ClientTlsError) as raised:
        tls_of_command_config(config(folder, **changes))
    assert why in str(raised.value)


def test_tls_client_does_not_follow_a_redirect_to_a_clear_text_leader(folder: Path) -> None:
    tls = tls_of_folder(folder)
    with AdminClient(["https://one:8443"], None, 1000, tls=tls) as client:
        assert client._may_follow("https://two:8443")
        assert not client._may_follow("http://two:8080")
        assert not client._may_follow("http://one:8443")
