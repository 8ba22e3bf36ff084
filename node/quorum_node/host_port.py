"""Addresses, as users write them in properties, options and variables of the environment: `host:port`, `id@host:port` of a voter, and
`NAME://host:port` of a listener."""

import re
from dataclasses import dataclass

_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.%]+\])")
_PORT = re.compile(r"[0-9]{1,5}")
_VOTER = re.compile(r"([0-9]+)@(.*:[0-9]+)")
_HIGHEST_PORT = 65_535
_MAX_HOST_LENGTH, _MAX_LABEL_LENGTH = 253, 63
"""RFC 1035, 2.3.4. Python's resolver raises UnicodeError, not OSError, for an empty or longer label."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host and a TCP port. An IPv6 address is kept without brackets and written with them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """id@host:port, a voter and its controller listener."""

    id: int
    address: HostPort

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """NAME://host:port; the host may be a wildcard."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{self.host}:{self.port}"


def is_host(text: str) -> bool:
    """Whether `text` is a host name, an IPv4 address, or an IPv6 address in brackets."""
    if not _HOST.fullmatch(text):
        return False
    labels = text.split(".")
    return text.startswith("[") or (
        len(text) <= _MAX_HOST_LENGTH and all(0 < len(each) <= _MAX_LABEL_LENGTH for each in labels)
    )


def parse_host_port(text: str, *, lowest_port: int = 1) -> HostPort:
    """Parse `host:port`, with an IPv6 address in brackets. Raises ValueError with a message that quotes `text`.

    `lowest_port=0` is for listening addresses, where 0 means any free port.
    """
    host, _, port = text.rpartition(":")
    if not is_host(host):
        raise ValueError(f"{text!r} is not host:port")
    return HostPort(host.strip("[]"), parse_port(port, text, lowest=lowest_port))


def parse_voter_address(text: str) -> VoterAddress:
    """Parse `id@host:port`. Raises ValueError with a message that quotes `text`."""
    found = _VOTER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not id@host:port")
    return VoterAddress(int(found[1]), parse_host_port(found[2]))


def parse_port(text: str, within: str, *, lowest: int = 1) -> int:
    """Parse the port of the address `within`. Raises ValueError with a message that quotes both."""
    if not _PORT.fullmatch(text) or not lowest <= int(text) <= _HIGHEST_PORT:
        raise ValueError(f"{text!r} in {within!r} is not a port from {lowest} to {_HIGHEST_PORT}")
    return int(text)
