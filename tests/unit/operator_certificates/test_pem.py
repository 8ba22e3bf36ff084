"""Certificates as they are read."""

import pytest

from quorum_operator.certificates import issuing
from quorum_operator.certificates.pem import Unreadable, read_all
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
