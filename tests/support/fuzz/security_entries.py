"""Fuzz targets for input from unauthenticated clients, and for key files.

Owns which errors are expected. The first byte of an input chooses a reader; a file of `SAMPLES` is a seed for each.
"""

from collections.abc import Callable
from functools import cache

from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.der import MalformedDer
from quorum_node.security.principals.mapping_rules import NoRuleFits, parse_mapping_rules
from quorum_node.security.principals.x500 import name_text, subject_text
from quorum_node.security.scram.add_scram import parse_add_scram
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.exchange import Challenge, ScramRefused, challenge, verdict
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.tls.key_pairs import load_key_pair, load_trust
from quorum_node.security.tls.problems import CertificateProblem
from support.generated_certificates import NOW, authority, issue, pem

_NONCE = "0123456789abcdefghijklmnop"
_DECOY = Decoy(b"a secret")
_PROPER = (CertificateProblem, MalformedDer, NoRuleFits, ScramRefused, SecuritySettingError)


def security(data: bytes) -> None:
    """One reader. Whatever is not refused properly is a finding."""
    readers = tuple(_READERS.values())
    try:
        readers[(data[0] if data else 0) % len(readers)](data[1:])
    except _PROPER:
        pass


@cache
def _given(mechanism: ScramMechanism = ScramMechanism.SHA_256) -> Challenge:
    made = made_from_password(mechanism, "right", b"salt", 4096).record("user", mechanism)
    return challenge(mechanism, b"n,,n=user,r=abc", lambda *_: made, _DECOY, _NONCE)


def _client_first(data: bytes) -> None:
    found = challenge(ScramMechanism.SHA_512, data, lambda *_: None, _DECOY, _NONCE)
    assert not found.is_known


def _client_last(data: bytes) -> None:
    verdict(_given(), data)
    raise AssertionError("a client authenticated without the password")


def _certificate(data: bytes) -> None:
    assert isinstance(subject_text(data), str)


def _name(data: bytes) -> None:
    assert isinstance(name_text(data), str)


def _rules(data: bytes) -> None:
    rules, _, subject = data.decode(errors="replace").partition("\0")
    assert isinstance(parse_mapping_rules(rules).name_of(subject), str)


def _add_scram(data: bytes) -> None:
    parse_add_scram([data.decode(errors="replace")], lambda: b"salt")


def _pair(data: bytes) -> None:
    load_key_pair(data, data, None, NOW, "fuzzed")


def _trust(data: bytes) -> None:
    load_trust(data, NOW, "fuzzed")


_READERS: dict[str, Callable[[bytes], None]] = {
    "client-first": _client_first,
    "client-last": _client_last,
    "certificate": _certificate,
    "name": _name,
    "rules": _rules,
    "add-scram": _add_scram,
    "pair": _pair,
    "trust": _trust,
}


def security_seeds() -> list[bytes]:
    """At least one valid input for each reader, except for the one that requires the password."""
    made, of_authority = issue(), authority()
    der = made.certificate.public_bytes(Encoding.DER)
    samples = {
        "client-first": b"n,a=user,n=user,r=abc,x=y",
        "client-last": b"c=biws,r=abc0123456789abcdefghijklmnop,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "certificate": der,
        "name": made.certificate.subject.public_bytes(),
        "rules": b"\0".join(
            (rb"RULE:^CN=([^,]*?)(?i)[a-f\d]{1,3}(?:x|\x41)+,.*$/$1@$0/L,DEFAULT", b"CN=a,O=b")
        ),
        "add-scram": b"SCRAM-SHA-512=[name=alice,password=x,iterations=4096,salt=YWJj]",
        "pair": made.keystore,
        "trust": pem(of_authority.certificate, of_authority.certificate),
    }
    assert samples.keys() == _READERS.keys()
    return [bytes([number]) + samples[name] for number, name in enumerate(_READERS)]
