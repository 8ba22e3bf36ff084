"""The ports that tests give to their servers."""

import itertools
import socket

import pytest

from support import ports


def test_no_port_is_returned_twice_in_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two listeners of one node had the same one when most of the block was busy."""
    (only,) = ports.free_ports(1)
    monkeypatch.setattr(ports, "_ports", lambda: itertools.repeat(only, 10_000))
    monkeypatch.setattr(ports, "_BLOCK", 1)
    assert ports.free_ports(1) == [only]
    with pytest.raises(RuntimeError, match="fewer than 2 are free"):
        ports.free_ports(2)


def test_port_in_use_is_not_free() -> None:
    (port,) = ports.free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert not ports._is_free(port)
    assert ports._is_free(port)


def test_port_is_free_when_its_server_has_closed_its_connections() -> None:
    (port,) = ports.free_ports(1)
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        served, _ = server.accept()
        served.close()  # first: what waits for late packets is on this side
        assert client.recv(1) == b""
    assert ports._is_free(port)
