"""The security protocols of listeners: Kafka's keys, which of them exclude each other, and that no secret is in a message."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.tls.cipher_suites import TLS_1_2_SUITES, TLS_1_3_SUITES
from quorum_node.security.tls.listener_security import (
    LISTENER_KEYS,
    PROTOCOL_MAP,
    ListenerSecurity,
    SecurityProtocol,
    parse_protocol_map,
    read_listeners,
)
from quorum_node.security.tls.ssl_settings import (
    ClientAuth,
    KeystoreSettings,
    PemFile,
    PemText,
    TlsVersion,
    read_ssl_settings,
)

STORES = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/certs/keystore.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/certs/ca.crt",
}
SECRET = "c3ByaW5nIGlzIGhlcmU"


def test_listener_with_defaults() -> None:
    found = read_ssl_settings(STORES, "CONTROLLER")
    file = PemFile("/certs/keystore.pem")
    assert found.keystore == KeystoreSettings(file, file)
    assert found.truststore == PemFile("/certs/ca.crt")
    assert (found.client_auth, found.checks_host) == (ClientAuth.REQUIRED, True)
    assert found.versions == {TlsVersion.TLS_1_3}
    assert found.cipher_suites.openssl == ""
    assert found.rules.name_of("CN=a") == "CN=a"


def test_listener_setting_overrides_the_general_one() -> None:
    properties = {
        **STORES,
        "listener.name.tools.ssl.keystore.location": "/other/keystore.pem",
        "listener.name.tools.ssl.client.auth": "NONE",
        "listener.name.tools.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "ssl.enabled.protocols": "TLSv1.3, TLSv1.2",
        "listener.name.tools.ssl.endpoint.identification.algorithm": "none",
    }
    tools, controller = (read_ssl_settings(properties, name) for name in ("TOOLS", "CONTROLLER"))
    assert tools.keystore.chain == PemFile("/other/keystore.pem")
    assert (tools.client_auth, tools.checks_host) == (ClientAuth.NONE, False)
    assert tools.rules.name_of("CN=a") == "a"
    assert controller.keystore.chain == PemFile("/certs/keystore.pem")
    assert controller.client_auth is ClientAuth.REQUIRED
    assert tools.versions == controller.versions == frozenset(TlsVersion)


def test_chain_and_key_given_in_the_configuration() -> None:
    found = read_ssl_settings(
        {
            "ssl.keystore.certificate.chain": "the chain",
            "ssl.keystore.key": SECRET,
            "ssl.key.password": SECRET,
            "ssl.truststore.certificates": "trusted",
        },
        "X",
    )
    assert found.keystore == KeystoreSettings(PemText("the chain"), PemText(SECRET), SECRET)
    assert found.truststore == PemText("trusted")
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"ssl.keystore.location": ""}, "ssl.keystore.location", "needs a PEM file"),
        ({"ssl.keystore.location": "certs/x"}, "ssl.keystore.location", "absolute path"),
        ({"ssl.truststore.location": ""}, "ssl.truststore.location", "would trust none"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type", "must be PEM"),
        ({"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type", "must be PEM"),
        ({"ssl.keystore.password": SECRET}, "ssl.keystore.password", "no store password"),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password", "no store password"),
        ({"ssl.keystore.key": SECRET}, "ssl.keystore.key", "requires ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": SECRET}, "ssl.keystore.certificate.chain", "requires ssl.keystore.key"),
        ({"ssl.keystore.certificate.chain": SECRET, "ssl.keystore.key": SECRET}, "ssl.keystore.location", "can't be combined"),
        ({"ssl.truststore.certificates": SECRET}, "ssl.truststore.location", "can't be combined"),
        ({"ssl.client.auth": "requested"}, "ssl.client.auth", "User:ANONYMOUS"),
        ({"ssl.client.auth": "yes"}, "ssl.client.auth", "required or none"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "ssl.enabled.protocols", "must be TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.3,"}, "ssl.enabled.protocols", "must be TLSv1.3"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "ssl.endpoint.identification.algorithm", "must be https"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules", "neither DEFAULT"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, "ssl.cipher.suites", "is none of"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "can't be chosen here"),
        (
            {"ssl.cipher.suites": ",".join(TLS_1_3_SUITES), "ssl.enabled.protocols": "TLSv1.2,TLSv1.3"},
            "ssl.cipher.suites", "none of these is a suite of TLSv1.2",
        ),
    ],
)  # fmt: skip
def test_unusable_setting_is_named(changes: dict[str, str], key: str, why: str) -> None:
    """For one listener the message names the key of that listener."""
    for prefix in ("", "listener.name.controller."):
        own = {f"{prefix}{name}": value for name, value in changes.items()}
        removed = {name: value for name, value in STORES.items() if changes.get(name) != ""}
        with pytest.raises(SecuritySettingError, match=why) as raised:
            read_ssl_settings({**removed, **own}, "CONTROLLER")
        assert raised.value.key.removeprefix("listener.name.controller.") == key
        assert SECRET not in str(raised.value)
        if prefix and key in changes and changes[key]:
            assert raised.value.key == prefix + key


def test_known_cipher_suites_are_those_of_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chosen = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
    properties = {
        **STORES,
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": ",".join(chosen),
    }
    context.set_ciphers(read_ssl_settings(properties, "X").cipher_suites.openssl)
    offered = [
        each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")
    ]
    assert offered == [TLS_1_2_SUITES[each] for each in chosen]
    for name in TLS_1_2_SUITES.values():
        context.set_ciphers(name)
    assert {each["name"] for each in context.get_ciphers()} > TLS_1_3_SUITES


def test_listeners_of_every_protocol() -> None:
    properties = {
        **STORES,
        PROTOCOL_MAP: "controller:ssl, TOOLS:SASL_SSL,OLD:PLAINTEXT ,BARE:SASL_PLAINTEXT",
        "listener.name.tools.sasl.enabled.mechanisms": "SCRAM-SHA-512, SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    controller, tools, old, bare = read_listeners(
        properties, ["CONTROLLER", "tools", "OLD", "BARE"], "CONTROLLER"
    )
    assert (controller.name, controller.protocol) == ("CONTROLLER", SecurityProtocol.SSL)
    assert controller.ssl == read_ssl_settings(STORES, "CONTROLLER")
    assert tools.mechanisms == (ScramMechanism.SHA_512, ScramMechanism.SHA_256)
    assert tools.ssl is not None
    assert old == ListenerSecurity("OLD", SecurityProtocol.PLAINTEXT)
    assert bare == ListenerSecurity(
        "BARE", SecurityProtocol.SASL_PLAINTEXT, mechanisms=(ScramMechanism.SHA_256,)
    )


def test_listener_without_a_protocol_map_is_plaintext_or_named_by_its_protocol() -> None:
    (controller,) = read_listeners({}, ["CONTROLLER"], "CONTROLLER")
    assert controller.protocol is SecurityProtocol.PLAINTEXT
    (named,) = read_listeners(STORES, ["SSL"], "SSL")
    assert named.protocol is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({PROTOCOL_MAP: "OTHER:SSL"}, "has no entry for listener CONTROLLER"),
        ({PROTOCOL_MAP: "CONTROLLER"}, "'CONTROLLER' is not LISTENER:PROTOCOL"),
        ({PROTOCOL_MAP: "CONTROLLER:TLS"}, "'TLS' is none of PLAINTEXT, SSL"),
        ({PROTOCOL_MAP: "CONTROLLER:SSL,controller:PLAINTEXT"}, "CONTROLLER is listed twice"),
        ({PROTOCOL_MAP: "CONTROLLER:SSL", "ssl.truststore.location": ""}, "would trust none"),
        ({PROTOCOL_MAP: "CONTROLLER:SASL_PLAINTEXT"}, "needs one of SCRAM-SHA-256, SCRAM-SHA-512"),
        (
            {PROTOCOL_MAP: "CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN"},
            "PLAIN is not supported",
        ),
        (
            {PROTOCOL_MAP: "CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "after a stop of all members none could log in",
        ),
        ({**STORES, PROTOCOL_MAP: "CONTROLLER:SASL_SSL", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "can't use SASL"),
    ],
)  # fmt: skip
def test_invalid_listeners_are_rejected(properties: dict[str, str], why: str) -> None:
    with pytest.raises(SecuritySettingError, match=why):
        read_listeners(
            {**STORES, **properties} if "PEM" not in why else properties,
            ["CONTROLLER"],
            "CONTROLLER",
        )


@given(
    st.dictionaries(
        st.sampled_from([*LISTENER_KEYS, PROTOCOL_MAP]),
        st.text("aC:,=LSTv1.23/()RUE\n ", max_size=30),
    )
)
def test_any_values_are_settings_or_are_rejected(
    properties: dict[str, str],
) -> None:
    try:
        parse_protocol_map(properties.get(PROTOCOL_MAP, ""))
        read_listeners({**STORES, **properties}, ["CONTROLLER", "SSL"], "SSL")
    except SecuritySettingError:
        pass
