"""Addresses that a replica announces for itself must be possible to connect to."""

import pytest

from quorum_node.records.dialable import MAX_LISTENERS, why_undialable, why_unusable
from quorum_node.records.identity import Endpoint


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "127.0.0.1", "10.0.0.255", "::1", "fe80::1%eth0", "node_1", "a", "a.b.c.", "1",
        "quorum-0.quorum.metadata.svc.cluster.local", "a" * 63, ".".join(["a" * 50] * 5)[:253],
    ],
)  # fmt: skip
def test_valid_listener_names(host: str) -> None:
    assert why_undialable(host, 9093) is None


@pytest.mark.parametrize(
    "host",
    [
        "", " ", "a b", "\0", "a\n", "-a", "a-", "a..b", ".a", "a" * 64, "a" * 30_000, "ä.de", "a/b", "u@h",
        "256.256.256.256", "1.2.3.999", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
        "[::1]", "1:2", "fe80::%",
    ],
)  # fmt: skip
def test_addresses_that_cannot_be_connected_to_are_rejected(host: str) -> None:
    why = why_undialable(host, 9093)
    assert why is not None
    assert len(why) < 200
    assert why.isprintable()


@pytest.mark.parametrize("port", [0, -1, 65_536, 1 << 31])
def test_valid_port_range(port: int) -> None:
    assert why_undialable("localhost", port) == f"{port} is not a port from 1 to 65535"


def test_listeners_of_one_voter_are_validated() -> None:
    place = ("localhost", 9093)
    good = (Endpoint("CONTROLLER", *place), Endpoint("ADMIN", *place), Endpoint("SSL-2", *place))
    assert why_unusable(good) is None
    assert why_unusable((*good, Endpoint("admin", *place))) == "two listeners are named ADMIN"
    for name in ("", "a b", "a" * 101, "\0"):
        assert "is not a valid listener name" in str(why_unusable((*good, Endpoint(name, *place))))
    many = [Endpoint(f"L{number}", *place) for number in range(MAX_LISTENERS + 1)]
    assert why_unusable(many[:-1]) is None
    assert why_unusable(many) == "more than 16 listeners"
    wrong = why_unusable((*good, Endpoint("X", "", 1)))
    assert wrong == "listener X: a host has 1 to 253 characters, this one has 0"
