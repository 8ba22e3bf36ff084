"""SCRAM's server side: the RFC's own exchange, everything that must be rejected, and what an unauthenticated client can find out."""

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.credential import Decoy, made_from_password, usual_iterations
from quorum_node.security.scram.exchange import (
    Authenticated,
    ScramRefused,
    challenge,
    verdict,
)
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.messages import (
    MAX_MESSAGE_BYTES,
    MalformedScram,
    parse_client_final,
    parse_client_first,
)
from support.scram_client import proof_message

NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
DECOY = Decoy(b"a secret of the quorum")
SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
BOTH = pytest.mark.parametrize("mechanism", list(ScramMechanism))


class Users:
    """A user's credential, for both mechanisms; counts the lookups."""

    def __init__(
        self, user: str = "user", password: str = "pencil", iterations: int = 4096
    ) -> None:
        salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        self.records = {
            (mechanism, user): made_from_password(mechanism, password, salt, iterations).record(
                user, mechanism
            )
            for mechanism in ScramMechanism
        }
        self.asked: list[str] = []

    def __call__(self, mechanism: ScramMechanism, user: str) -> UserScramCredentialRecord | None:
        self.asked.append(user)
        return self.records.get((mechanism, user))


def last_message(
    mechanism: ScramMechanism, bare: str, server: bytes, password: str, binding: str = "n,,"
) -> bytes:
    return proof_message(mechanism, bare, server, password, binding)


def test_exchange_of_the_rfc() -> None:
    """RFC 7677, section 3."""
    given = challenge(SHA_256, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", Users(), DECOY, NONCE)
    assert given.answer == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    found = verdict(
        given,
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    )
    assert found == Authenticated(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@BOTH
@given(
    user=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=20),
    password=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    wrong=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    iterations=st.sampled_from([4096, 8192]),
)
@settings(max_examples=25, deadline=None)
def test_only_the_right_password_is_accepted(
    mechanism: ScramMechanism, user: str, password: str, wrong: str, iterations: int
) -> None:
    users = Users(user, password, iterations)
    written = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={written},r=abc,more=x=y"
    given_ = challenge(mechanism, f"n,a={written},{bare}".encode(), users, DECOY, NONCE)
    binding = f"n,a={written},"
    message = last_message(mechanism, bare, given_.answer, password, binding)
    assert verdict(given_, message).user == user
    if wrong != password:
        with pytest.raises(ScramRefused):
            verdict(given_, last_message(mechanism, bare, given_.answer, wrong, binding))


@BOTH
def test_unknown_user_is_indistinguishable_from_a_wrong_password(
    mechanism: ScramMechanism,
) -> None:
    """The same steps, the same messages, a constant salt, and no password is accepted."""
    users = Users()
    reported = {}
    for user in ("user", "nobody"):
        bare = f"n={user},r=abc"
        answers = [
            challenge(mechanism, f"n,,{bare}".encode(), users, DECOY, nonce).answer.split(b",", 1)[
                1
            ]
            for nonce in (NONCE, NONCE[::-1])
        ]
        assert answers[0] == answers[1]
        given = challenge(mechanism, f"n,,{bare}".encode(), users, DECOY, NONCE)
        with pytest.raises(ScramRefused) as refused:
            verdict(given, last_message(mechanism, bare, given.answer, "a guess"))
        reported[user] = refused.value.told
        assert "no usable credential" in refused.value.reason or user == "user"
    assert reported["user"] == reported["nobody"]
    salts = {
        challenge(mechanism, f"n,,n={user},r=abc".encode(), users, decoy, NONCE).answer
        for user in ("nobody", "somebody")
        for decoy in (DECOY, Decoy(b"another secret"))
    }
    assert len(salts) == 4
    usual = challenge(mechanism, b"n,,n=x,r=abc", users, Decoy(b"s", {mechanism: 8192}), NONCE)
    assert usual.answer.endswith(b",i=8192")


def test_decoy_credential_has_the_most_common_iteration_count() -> None:
    """For each mechanism: users whose passwords have 8192 for one and 4096 for the other are usual."""
    assert usual_iterations([]) == {}
    records = [
        record
        for iterations in (8192, 8192, 4096, 16384, 16384)
        for record in Users(iterations=iterations).records.values()
    ]
    assert usual_iterations(records) == {SHA_256: 8192, SHA_512: 8192}
    of_two_kinds = [
        Users(user, iterations=iterations).records[mechanism, user]
        for user in ("alice", "bob")
        for mechanism, iterations in ((SHA_256, 8192), (SHA_512, 4096))
    ]
    of_newer_version = replace(of_two_kinds[0], mechanism=9)
    too_few = [replace(each, iterations=1) for each in of_two_kinds * 2]
    usual = usual_iterations([*of_two_kinds, of_newer_version, *too_few])
    assert usual == {SHA_256: 8192, SHA_512: 4096}
    for mechanism, iterations in usual.items():
        given = challenge(mechanism, b"n,,n=nobody,r=abc", Users(), Decoy(b"s", usual), NONCE)
        assert given.credential.iterations == iterations


@BOTH
def test_keys_of_the_decoy_credential_authenticate_no_client(
    mechanism: ScramMechanism,
) -> None:
    """Were the stored key of a decoy ever found out, its user would still not exist."""
    given = challenge(mechanism, b"n,,n=nobody,r=abc", Users(), DECOY, NONCE)
    known = made_from_password(mechanism, "pencil", given.credential.salt, 4096)
    message = last_message(mechanism, "n=nobody,r=abc", given.answer, "pencil")
    with pytest.raises(ScramRefused, match="no usable credential"):
        verdict(replace(given, credential=known), message)
    assert verdict(replace(given, credential=known, is_known=True), message).user == "nobody"


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("iterations", 4095),
        ("iterations", 0),
        ("stored_key", b""),
        ("server_key", b"x"),
        ("salt", b""),
    ],
)
def test_credential_unfit_for_the_mechanism_authenticates_no_client(
    change: str, value: Any
) -> None:
    users = Users()
    key = (SHA_256, "user")
    users.records[key] = replace(users.records[key], **{change: value})
    given = challenge(SHA_256, b"n,,n=user,r=abc", users, DECOY, NONCE)
    assert given.answer.endswith(b",i=4096")
    with pytest.raises(ScramRefused, match="no usable credential"):
        verdict(given, last_message(SHA_256, "n=user,r=abc", given.answer, "pencil"))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"y,,n=user,r=abc", "channel binding is not supported"),
        (b"p=tls-exporter,,n=user,r=abc", "channel binding is not supported"),
        (b"n,,m=must,n=user,r=abc", "must be understood"),
        (b"n,a=root,n=user,r=abc", "authorization id"),
        (b"n,,n=user,r=abc,tokenauth=true", "delegation tokens"),
        (b"n,,n=user,r=abc,tokenauth=TRUE", "delegation tokens"),
        (b"n,,n=us=er,r=abc", "not a client's first message"),
        (b"n,,n=,r=abc", "not a client's first message"),
        (b"n,,n=user,r=", "not a client's first message"),
        (b"n,,n=user,r=abc\n", "not a client's first message"),
        ("n,,n=Müller,r=abc".encode(), "beyond ASCII"),
        (b"", "not a client's first message"),
        (b"n,,n=" + b"a" * MAX_MESSAGE_BYTES, "more than"),
    ],
)
def test_invalid_first_message_is_rejected(message: bytes, why: str) -> None:
    users = Users()
    with pytest.raises(ScramRefused, match=why) as refused:
        challenge(SHA_256, message, users, DECOY, NONCE)
    assert users.asked == []
    assert refused.value.told.endswith("invalid credentials with SASL mechanism SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("place", "by", "why"),
    [
        (b"c=biws", b"c=eSws", "channel binding"),
        (b"c=biws", b"c=", "channel binding"),
        (b"r=abc", b"r=abd", "nonce"),
        (b"r=abc", b"r=xabc", "nonce"),
        (b",p=", b",p=AAAA", "a proof has 32 bytes"),
        (b",p=", b"\n,p=", "not a client's last message"),
        (b",p=", b",p=A", "not a client's last message"),
    ],
)
def test_invalid_final_message_is_rejected(place: bytes, by: bytes, why: str) -> None:
    given = challenge(SHA_256, b"n,,n=user,r=abc", Users(), DECOY, NONCE)
    message = last_message(SHA_256, "n=user,r=abc", given.answer, "pencil")
    assert verdict(given, message).user == "user"
    with pytest.raises(ScramRefused, match=why):
        verdict(given, message.replace(place, by, 1))


def test_proof_is_valid_for_one_exchange_only() -> None:
    """Overheard, and sent again: the server's part of the nonce is another one."""
    first = challenge(SHA_512, b"n,,n=user,r=abc", Users(), DECOY, NONCE)
    message = last_message(SHA_512, "n=user,r=abc", first.answer, "pencil")
    second = challenge(SHA_512, b"n,,n=user,r=abc", Users(), DECOY, NONCE[::-1])
    with pytest.raises(ScramRefused, match="nonce"):
        verdict(second, message)


def test_predictable_nonce_is_a_caller_error() -> None:
    for nonce in ("short", "a" * 30 + ",", "a" * 30 + "é"):
        with pytest.raises(ValueError, match="nonce"):
            challenge(SHA_256, b"n,,n=user,r=abc", Users(), DECOY, nonce)


def test_keys_are_not_in_the_repr() -> None:
    given = challenge(SHA_256, b"n,,n=user,r=abc", Users(), DECOY, NONCE)
    for value in (given.credential.stored_key, given.credential.server_key, DECOY.secret):
        assert repr(value)[2:-1] not in repr((given, DECOY))


@given(
    st.one_of(
        st.binary(max_size=60), st.text("n,yparm=2C3DLtokenauthe\0", max_size=60).map(str.encode)
    )
)
@settings(max_examples=500)
def test_any_bytes_are_a_message_or_are_rejected(data: bytes) -> None:
    for read in (parse_client_first, parse_client_final):
        try:
            read(data)
        except MalformedScram:
            pass
