"""Reading single values out of properties: one parser per kind, each failure names key and value.

Knows the shapes of values, not which keys exist.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from uuid import UUID

from quorum_node.records.identity import parse_uuid

_HOST = re.compile(r"^(?:[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.%]+\])$")
_LISTENER = re.compile(r"^([A-Za-z_]+)://(.*):([0-9]+)/?$")
_VOTER = re.compile(r"^([0-9]+)@(.*):([0-9]+)$")
_WILDCARDS = ("", "0.0.0.0", "[::]", "::")


class ConfigError(ValueError):
    """A configuration that can't be used; the message says which key, which value, and why."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """NAME://host:port; the host may be a wildcard."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """id@host:port, an entry of controller.quorum.voters."""

    id: int
    address: HostPort

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


class Pairs:
    """Key → text, with a typed reader per kind of value. Every reader raises ConfigError."""

    def __init__(self, raw: dict[str, str]) -> None:
        self._raw = raw

    def has(self, key: str) -> bool:
        """Whether the key has a value that is not empty."""
        return bool(self._raw.get(key))

    def text(self, key: str, default: str | None = None) -> str:
        """The value, or the default; without a default the key must be there."""
        value = self._raw.get(key) or default
        if value is None:
            raise ConfigError(f"{key} is not set; it has no default")
        return value

    def wrong(self, key: str, why: str, value: str | None = None) -> ConfigError:
        """The error to raise for the value of a key."""
        return ConfigError(f"{key}={self._raw.get(key, '') if value is None else value}: {why}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """A misspelt key would silently leave its default in force."""
        names = list(known)
        for key, value in self._raw.items():
            if key not in names:
                near = get_close_matches(key, names, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{key}={value}: no such key{hint}")

    def integer(self, key: str, default: int | None = None, *, minimum: int, maximum: int) -> int:
        """A whole number within the bounds, both included."""
        text = self.text(key, None if default is None else str(default))
        try:
            number = int(text)
        except ValueError:
            raise self.wrong(key, "not a whole number") from None
        if not minimum <= number <= maximum:
            raise self.wrong(key, f"must be from {minimum} to {maximum}", text)
        return number

    def boolean(self, key: str, *, default: bool) -> bool:
        """true or false."""
        return self.choice(key, str(default).lower(), ("true", "false")) == "true"

    def choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        """One of the choices, in any case."""
        text = self.text(key, default).lower()
        if text not in choices:
            raise self.wrong(key, f"must be one of {', '.join(choices)}")
        return text

    def uuid(self, key: str) -> UUID:
        """A replica UUID: 22 characters of base64url, not all zero."""
        try:
            uuid = parse_uuid(self.text(key))
        except ValueError:
            raise self.wrong(key, "not a UUID of 22 base64url characters") from None
        if uuid.int == 0:
            raise self.wrong(key, "the all-zero UUID means 'unknown'")
        return uuid

    def cluster_id(self, key: str) -> str | None:
        """Any short text without blanks; Kafka's tools make 22 base64url characters."""
        if not self.has(key):
            return None
        text = self.text(key)
        if len(text) > 100 or not text.isprintable() or " " in text:
            raise self.wrong(key, "must be at most 100 printable characters without blanks")
        return text

    def absolute_path(self, key: str) -> Path:
        """A path that does not depend on the working directory."""
        path = Path(self.text(key))
        if not path.is_absolute():
            raise self.wrong(key, "must be an absolute path")
        return path

    def optional_path(self, key: str) -> Path | None:
        """The same, or None when the key is absent."""
        return self.absolute_path(key) if self.has(key) else None

    def listener(self, key: str, default: str, name: str) -> ListenerAddress:
        """NAME://host:port with the one name that is served."""
        text = self.text(key, default or None)
        match = _LISTENER.match(text)
        if match is None:
            raise self.wrong(key, f"must be {name}://host:port", text)
        if match[1].upper() != name.upper():
            raise self.wrong(key, f"the listener's name must be {name}", text)
        host = match[2]
        if host not in _WILDCARDS and not _HOST.match(host):
            raise self.wrong(key, f"{host!r} is no host", text)
        return ListenerAddress(name, host or "0.0.0.0", self._port(key, match[3], text))

    def reachable(self, key: str, address: HostPort, instead: str | None = None) -> HostPort:
        """The address, unless others can't connect to it."""
        if address.host in _WILDCARDS:
            hint = f"; set {instead}" if instead else ""
            raise self.wrong(key, f"{address.host} is no address others can reach{hint}")
        return HostPort(address.host.strip("[]"), address.port)

    def host_ports(self, key: str) -> tuple[HostPort, ...]:
        """host:port, separated by commas, at least one."""
        return tuple(self._host_port(key, item) for item in self._items(key))

    def voters(self, key: str) -> tuple[VoterAddress, ...]:
        """id@host:port, separated by commas, every id once."""
        voters: list[VoterAddress] = []
        for item in self._items(key):
            match = _VOTER.match(item)
            if match is None:
                raise self.wrong(key, f"{item!r} is not id@host:port")
            address = self._host_port(key, f"{match[2]}:{match[3]}")
            voters.append(VoterAddress(int(match[1]), address))
        ids = [voter.id for voter in voters]
        if len(set(ids)) < len(ids):
            raise self.wrong(key, "an id stands there twice")
        return tuple(voters)

    def _items(self, key: str) -> list[str]:
        items = [item.strip() for item in self.text(key).split(",")]
        if not all(items):
            raise self.wrong(key, "an entry between the commas is empty")
        return items

    def _host_port(self, key: str, item: str) -> HostPort:
        host, _, port = item.rpartition(":")
        if not _HOST.match(host):
            raise self.wrong(key, f"{item!r} is not host:port")
        return HostPort(host.strip("[]"), self._port(key, port, item))

    def _port(self, key: str, text: str, item: str) -> int:
        if not text.isdigit() or not 0 < int(text) <= 65535:
            raise self.wrong(key, f"{text!r} in {item!r} is no port from 1 to 65535")
        return int(text)
