"""A SCRAM client: it logs in with the right password, verifies the server, and accepts Kafka's settings."""

import base64
from dataclasses import replace

import pytest

from quorum_node.client_sasl import ClientSaslError, sasl_of
from quorum_node.security.scram.client_exchange import ClientExchange, ServerRefused
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.exchange import Authenticated, challenge, verdict
from quorum_node.security.scram.mechanism import ScramMechanism

NONCE = "0123456789abcdefghijklmnop"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hush-hush"


def exchange(mechanism: ScramMechanism, user: str, password: str) -> ClientExchange:
    return ClientExchange(mechanism, user, password, "client-nonce")


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize(
    ("user", "password"), [("alice", "pass"), ("a,b=c", "pässword, with = \n")]
)
def test_client_and_server_authenticate_each_other(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    record = made_from_password(mechanism, password, b"salt", 4096).record(user, mechanism)
    client = exchange(mechanism, user, password)
    assert password not in repr(client)
    given = challenge(mechanism, client.first, lambda *_: record, Decoy(b"secret"), NONCE)
    last = client.last(given.answer)
    found = verdict(given, last.message)
    assert isinstance(found, Authenticated)
    assert found.user == user
    last.check(found.answer)
    with pytest.raises(ServerRefused, match="does not know the password"):
        replace(last, signature=b"x" * mechanism.key_bytes).check(found.answer)


SALT = base64.b64encode(b"salt").decode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (f"r=client-nonce{NONCE},s={SALT},i=4095", "requires 4095 iterations"),
        (f"r=client-nonce{NONCE},s={SALT},i=99999999", "requires 99999999 iterations"),
        (f"r=client-nonce,s={SALT},i=4096", "another exchange"),
        (f"r={NONCE},s={SALT},i=4096", "another exchange"),
        (f"r=client-nonce{NONCE},s=?,i=4096", "can't be read"),
        ("e=other-error", "can't be read"),
        ("\x80", "can't be read"),
    ],
)
def test_invalid_server_response_is_rejected(answer: str, why: str) -> None:
    with pytest.raises(ServerRefused, match=why):
        exchange(ScramMechanism.SHA_256, "alice", SECRET).last(answer.encode("latin-1"))


@pytest.mark.parametrize(
    "reported",
    [
        {"sasl.username": "alice", "sasl.password": SECRET},
        {"sasl.jaas.config": f'{MODULE} required username="alice" password="{SECRET}";'},
        {"sasl.jaas.config": f"{MODULE}  required\n username='alice'\n password={SECRET} ;"},
        {"sasl.jaas.config": f'{MODULE} required password="hush\\-hush" username=alice;'},
    ],
)
def test_kafka_client_properties_are_parsed(reported: dict[str, str]) -> None:
    found = sasl_of({"sasl.mechanism": "SCRAM-SHA-512", "request.timeout.ms": "1", **reported})
    assert (found.mechanism, found.user, found.password) == (
        ScramMechanism.SHA_512,
        "alice",
        SECRET,
    )
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism=PLAIN: write one of"),
        ({"sasl.username": "alice"}, "the user or the password is missing"),
        ({"sasl.jaas.config": f"x.PlainLoginModule required password={SECRET};"}, "ScramLoginModule"),
        ({"sasl.jaas.config": f'{MODULE} required password="{SECRET}"'}, "ScramLoginModule"),
        ({"sasl.jaas.config": f'{MODULE} required {SECRET};'}, "an option is not"),
        ({"sasl.jaas.config": "x", "sasl.password": SECRET}, "can't be combined"),
        ({"sasl.oauthbearer.token.endpoint.url": "x"}, "is not supported"),
    ],
)  # fmt: skip
def test_unusable_client_properties_are_rejected(reported: dict[str, str], why: str) -> None:
    with pytest.raises(ClientSaslError, match=why) as raised:
        sasl_of({"sasl.mechanism": "SCRAM-SHA-512", **reported})
    assert SECRET not in str(raised.value)
