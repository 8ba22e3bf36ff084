"""Certificates as they are read."""

import pytest

from quorum_operator.certificates import issuing, pem
from quorum_operator.certificates.pem import Unreadable, load_key, read_all
from quorum_operator.desired.names import Owner

OWNER = Owner("demo", "space", "uid")
FIRST, SECOND = (
    issuing.new_authority(OWNER, number, 1_795_000_000.0).certificate.pem for number in (1, 2)
)


def test_identical_bytes_are_parsed_once_and_changed_bytes_again() -> None:
    """Each reconcile reads the same certificates: parsing them took most of its time."""
    before = read_all(FIRST + SECOND)
    assert [each.pem for each in before] == [FIRST, SECOND]
    again = read_all((SECOND + FIRST).encode())
    assert again[0] is before[1]
    assert again[1] is before[0]


def test_unreadable_bytes_stay_unreadable_in_the_cache() -> None:
    lines = FIRST.splitlines(keepends=True)
    broken = "".join([lines[0], "A" + lines[1][1:], *lines[2:]])
    for _ in range(2):
        with pytest.raises(Unreadable):
            read_all(broken)
    assert read_all(FIRST)[0].pem == FIRST


def test_text_around_certificates_and_other_blocks_are_ignored() -> None:
    key = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
    text = f"the first:\r\n{FIRST}{key}-----END CERTIFICATE-----\n{SECOND.strip()}"
    assert [each.pem for each in read_all(text)] == [FIRST, SECOND]
    assert pem.count_of(text) == 2


def test_key_is_loaded_once_and_another_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An RSA key of 4096 bits takes 0.3 s, and each reconcile asks for it several times."""
    loaded: list[bytes] = []

    def load(key_pem: str | bytes) -> pem.PrivateKey:
        loaded.append(key_pem if isinstance(key_pem, bytes) else key_pem.encode())
        return load_key(key_pem)

    monkeypatch.setattr(pem, "load_key", load)
    one, two = (issuing.new_authority(OWNER, number, 1_795_000_000.0) for number in (3, 4))
    keys = [each.key_pem.encode() for each in (one, two)]
    for _ in range(3):
        assert pem.key_fits(keys[0], one.certificate)
        assert not pem.key_fits(keys[1], one.certificate)
        assert pem.key_fits(keys[1], two.certificate)
    assert loaded == [keys[0], keys[1], keys[1]]


def test_text_that_is_too_long_for_a_key_is_refused_without_loading_it() -> None:
    with pytest.raises(Unreadable, match="too long for a private key"):
        load_key(b"x" * 8193)
