"""The error message when a listener can't bind its address."""

import errno
import os

import pytest

from quorum_node.host_port import ListenerAddress
from quorum_node.server.listener.refused_address import refused_address


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EADDRINUSE, "choose another port"),
        (errno.EADDRNOTAVAIL, "0.0.0.0"),
        (errno.EACCES, "1024"),
    ],
)
def test_bind_error_names_listener_address_reason_and_remedy(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number))
    text = str(refused_address("admin.listener", ListenerAddress("", "10.0.0.1", 99), error))
    assert "admin.listener=" in text
    assert "10.0.0.1:99" in text
    assert os.strerror(number) in text
    assert remedy in text


def test_other_errors_are_reported_unchanged() -> None:
    error = OSError(errno.EPROTO, "odd")
    text = str(refused_address("listeners", ListenerAddress("", "h", 1), error))
    assert text.endswith("odd")
