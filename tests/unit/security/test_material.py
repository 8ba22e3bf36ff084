"""Files that change under a running listener: a new set as a whole, or the old one and one sentence."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.security.tls.key_pairs import KeyPair
from quorum_node.security.tls.material import (
    Contents,
    Held,
    first_held,
    held_now,
    is_renewal_due,
    paths_of,
)
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.ssl_settings import PemText, read_ssl_settings
from support.generated_certificates import DAY, NOW, Issued, authority, issue, key_pem, pem

STORE, TRUST = "/certs/keystore.pem", "/certs/ca.crt"
SETTINGS = read_ssl_settings(
    {"ssl.keystore.location": STORE, "ssl.truststore.location": TRUST}, "CONTROLLER"
)
CA, NEXT = authority("ca-1"), authority("ca-2")
URI = ("urn:metadataquorum:ns:demo:member:1",)
FIRST, SECOND = issue(issuer=CA, uris=URI), issue(issuer=CA, uris=URI)
OTHER = issue(issuer=NEXT, uris=URI)
GOOD: Contents = {STORE: FIRST.keystore, TRUST: pem(CA.certificate)}
HELD = first_held(SETTINGS, GOOD, NOW, 1)


def holds(held: Held, made: Issued) -> bool:
    pair: KeyPair = held.material.pair
    return (pair.leaf, pair.key_pem) == (made.certificate, key_pem(made.key))


def test_files_to_read_are_selected() -> None:
    assert paths_of(SETTINGS) == {STORE, TRUST}
    text = PemText("x")
    in_place = replace(SETTINGS, keystore=replace(SETTINGS.keystore, chain=text, key=text))
    assert paths_of(in_place) == {TRUST}


def test_unchanged_files_change_nothing() -> None:
    assert holds(HELD, FIRST)
    assert HELD.material.identity is not None
    assert held_now(HELD, SETTINGS, dict(GOOD), NOW, 1) is HELD


def test_new_pair_and_new_trust_are_loaded() -> None:
    renewed = held_now(HELD, SETTINGS, {**GOOD, STORE: SECOND.keystore}, NOW, 1)
    assert holds(renewed, SECOND)
    both = {STORE: SECOND.keystore, TRUST: pem(CA.certificate, NEXT.certificate)}
    wider = held_now(renewed, SETTINGS, both, NOW, 1)
    assert wider.material.trust is not None
    assert wider.material.trust.certificates == (CA.certificate, NEXT.certificate)
    moved = held_now(wider, SETTINGS, {**both, STORE: OTHER.keystore}, NOW, 1)
    assert (holds(moved, OTHER), moved.problem) == (True, None)


def test_outgoing_connections_stay_while_trust_only_grows() -> None:
    both = {TRUST: pem(CA.certificate, NEXT.certificate)}
    wider = held_now(HELD, SETTINGS, {**GOOD, **both}, NOW, 1)
    assert not is_renewal_due(HELD.material, wider.material)
    assert is_renewal_due(wider.material, HELD.material), "an authority is not trusted any more"
    renewed = held_now(HELD, SETTINGS, {**GOOD, **both, STORE: SECOND.keystore}, NOW, 1)
    assert is_renewal_due(HELD.material, renewed.material)


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        ({STORE: None}, ProblemKind.MISSING),
        ({TRUST: None}, ProblemKind.MISSING),
        ({STORE: SECOND.keystore[:-30]}, ProblemKind.HALF_WRITTEN),
        ({STORE: b""}, ProblemKind.HALF_WRITTEN),
        ({TRUST: pem(CA.certificate)[:-3]}, ProblemKind.HALF_WRITTEN),
        ({STORE: b"garbage"}, ProblemKind.MALFORMED),
        ({STORE: key_pem(FIRST.key) + pem(SECOND.certificate)}, ProblemKind.KEY_DOES_NOT_MATCH),
        ({STORE: OTHER.keystore}, ProblemKind.UNTRUSTED),
        ({TRUST: pem(NEXT.certificate)}, ProblemKind.UNTRUSTED),
        ({STORE: issue(issuer=CA, uris=URI, end=NOW - DAY / 2).keystore}, ProblemKind.EXPIRED),
        ({STORE: issue(issuer=CA).keystore}, ProblemKind.WRONG_IDENTITY),
        ({STORE: issue(issuer=CA, uris=(URI[0] + "2",)).keystore}, ProblemKind.WRONG_IDENTITY),
    ],
)
def test_invalid_files_change_nothing_and_are_reported(
    contents: dict[str, bytes | None], kind: ProblemKind
) -> None:
    """And the next good set is taken as if nothing had been."""
    wrong = {**GOOD, **contents}
    found = held_now(HELD, SETTINGS, wrong, NOW, 1)
    assert found.material is HELD.material
    assert found.problem is not None
    assert found.problem.kind is kind
    assert held_now(found, SETTINGS, wrong, NOW, 1) is found
    mended = held_now(found, SETTINGS, {**GOOD, STORE: SECOND.keystore}, NOW, 1)
    assert (holds(mended, SECOND), mended.problem) == (True, None)
    back = held_now(found, SETTINGS, GOOD, NOW, 1)
    assert (holds(back, FIRST), back.problem) == (True, None)
    with pytest.raises(CertificateProblem) as raised:
        first_held(SETTINGS, wrong, NOW, 1)
    assert raised.value.kind is kind


@pytest.mark.parametrize("store", [None, SECOND.keystore[:-30], OTHER.keystore[:-30]])
def test_trust_is_loaded_even_if_the_pair_is_unusable(store: bytes | None) -> None:
    """Else the next authority waits for this node, and this node for a pair that the next authority signs."""
    both = pem(CA.certificate, NEXT.certificate)
    found = held_now(HELD, SETTINGS, {STORE: store, TRUST: both}, NOW, 1)
    assert (holds(found, FIRST), found.problem is not None) == (True, True)
    assert found.material.trust is not None
    assert found.material.trust.certificates == (CA.certificate, NEXT.certificate)
    without_own = held_now(HELD, SETTINGS, {STORE: store, TRUST: pem(NEXT.certificate)}, NOW, 1)
    assert without_own.material is HELD.material, "its own pair would be trusted no longer"


def test_pair_that_becomes_valid_is_loaded_then() -> None:
    early = issue(issuer=CA, uris=URI, start=NOW + timedelta(minutes=3))
    contents = {**GOOD, STORE: early.keystore}
    waiting = held_now(HELD, SETTINGS, contents, NOW, 1)
    assert waiting.problem is not None
    assert waiting.problem.kind is ProblemKind.NOT_YET_VALID
    later = held_now(waiting, SETTINGS, contents, NOW + timedelta(minutes=1), 1)
    assert later is waiting, "time passes, and there is nothing new to report"
    later = held_now(waiting, SETTINGS, contents, NOW + timedelta(minutes=4), 1)
    assert (holds(later, early), later.problem) == (True, None)


def test_any_certificate_is_accepted_without_a_configured_id() -> None:
    held = first_held(SETTINGS, {**GOOD, STORE: issue(issuer=CA).keystore}, NOW)
    assert held.material.identity is None


def test_keys_are_not_in_the_repr() -> None:
    secret = key_pem(FIRST.key).splitlines()[1].decode()
    assert secret not in repr(HELD)


STATES = st.sampled_from(
    [
        GOOD,
        {**GOOD, STORE: SECOND.keystore},
        {**GOOD, STORE: SECOND.keystore[:-30]},
        {**GOOD, STORE: key_pem(FIRST.key) + pem(SECOND.certificate)},
        {STORE: OTHER.keystore, TRUST: pem(CA.certificate, NEXT.certificate)},
        {STORE: OTHER.keystore, TRUST: pem(CA.certificate)},
        {STORE: None, TRUST: None},
    ]
)


@given(st.lists(STATES, max_size=8))
@settings(max_examples=60, deadline=None)
def test_last_valid_set_is_kept_for_any_sequence_of_file_states(
    states: list[Contents],
) -> None:
    held, expected = HELD, HELD.material
    for contents in states:
        held = held_now(held, SETTINGS, contents, NOW, 1)
        try:
            expected = first_held(SETTINGS, contents, NOW, 1).material
        except CertificateProblem as problem:
            assert str(held.problem) == str(problem)  # noqa: PT017 # of the very files that fail
        else:
            assert held.problem is None
        assert held.material == expected
