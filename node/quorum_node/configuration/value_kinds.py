"""The kinds of values of a key: parsing, error messages, and names in the reference.

One parser per kind. An invalid text raises WrongValue; the caller adds key and value. Must not know
keys.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import UUID

from quorum_node.controller.topic_config_types import TopicConfig
from quorum_node.controller.topic_settings import scaled
from quorum_node.host_port import (
    HostPort,
    ListenerAddress,
    VoterAddress,
    is_host,
    parse_host_port,
    parse_port,
    parse_voter_address,
)
from quorum_node.records.identity import parse_uuid
from quorum_node.security.authorizer import parse_super_users
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.mapping_rules import MappingRules, parse_mapping_rules
from quorum_node.security.tls.listener_security import SecurityProtocol, parse_protocol_map

_COUNT = re.compile(r"[0-9]{1,9}")
"""`str.isdigit` also accepts characters that `int` does not, such as ², and any length."""
_LISTENER = re.compile(r"^([A-Za-z0-9_]+)://(.*):([0-9]+)/?$")
WILDCARDS = ("", "0.0.0.0", "[::]", "::")
"""Hosts that mean all addresses of this machine."""
FAR = 2**63 - 1
HOUR_MS = 3_600_000
MANY = 2**31 - 1

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class WrongValue(ValueError):
    """Why a text is not a valid value."""


class Kind(Protocol[T_co]):
    """A kind of values."""

    def parse(self, text: str) -> T_co:
        """The value of a text that is not empty. Raises WrongValue."""

    def describe(self) -> str:
        """Description of valid values, in a few words of Markdown."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within the bounds, both included."""

    minimum: int
    maximum: int

    def parse(self, text: str) -> int:
        """See `Kind`."""
        try:
            number = int(text)
        except ValueError:
            raise WrongValue("not a whole number") from None
        if not self.minimum <= number <= self.maximum:
            raise WrongValue(f"must be from {self.minimum} to {self.maximum}")
        return number

    def describe(self) -> str:
        """See `Kind`."""
        if self.maximum >= MANY:
            return f"number from {self.minimum}"
        return f"number from {self.minimum} to {self.maximum}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words, in any case."""

    words: tuple[str, ...]

    def parse(self, text: str) -> str:
        """See `Kind`."""
        if text.lower() not in self.words:
            raise WrongValue(f"must be one of {', '.join(self.words)}")
        return text.lower()

    def describe(self) -> str:
        """See `Kind`."""
        return ", ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True, slots=True)
class Boolean:
    """true or false."""

    def parse(self, text: str) -> bool:
        """See `Kind`."""
        return Choice(("true", "false")).parse(text) == "true"

    def describe(self) -> str:
        """See `Kind`."""
        return "`true`, `false`"


@dataclass(frozen=True, slots=True)
class OneWord:
    """A single valid word; `refusal` is the message for all others."""

    word: str
    refusal: str

    def parse(self, text: str) -> str:
        """See `Kind`."""
        if text != self.word:
            raise WrongValue(self.refusal)
        return text

    def describe(self) -> str:
        """See `Kind`."""
        return f"`{self.word}`"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words; `refusal` is the message for all others."""

    words: tuple[str, ...]
    refusal: str

    def parse(self, text: str) -> str:
        """See `Kind`."""
        if text not in self.words:
            raise WrongValue(self.refusal)
        return text

    def describe(self) -> str:
        """See `Kind`."""
        return " or ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True, slots=True)
class ReplicaUuid:
    """22 characters of base64url, not all zero."""

    def parse(self, text: str) -> UUID:
        """See `Kind`."""
        try:
            uuid = parse_uuid(text)
        except ValueError:
            raise WrongValue("not a UUID of 22 base64url characters") from None
        if uuid.int == 0:
            raise WrongValue("the all-zero UUID means 'unknown'")
        return uuid

    def describe(self) -> str:
        """See `Kind`."""
        return "UUID, 22 base64url characters"


@dataclass(frozen=True, slots=True)
class ClusterId:
    """Any short text without blanks; Kafka's tools make 22 base64url characters."""

    def parse(self, text: str) -> str:
        """See `Kind`."""
        if len(text) > 100 or not text.isprintable() or " " in text:
            raise WrongValue("must be at most 100 printable characters without blanks")
        return text

    def describe(self) -> str:
        """See `Kind`."""
        return "at most 100 characters without blanks"


@dataclass(frozen=True, slots=True)
class AbsolutePath:
    """A path that does not depend on the working directory."""

    def parse(self, text: str) -> Path:
        """See `Kind`."""
        path = Path(text)
        if "\0" in text:
            raise WrongValue("a path can't contain the character NUL")
        if not path.is_absolute():
            raise WrongValue("must be an absolute path")
        return path

    def describe(self) -> str:
        """See `Kind`."""
        return "absolute path"


@dataclass(frozen=True, slots=True)
class AbsolutePaths:
    """Absolute paths, separated by commas. None of them is listed twice."""

    def parse(self, text: str) -> tuple[Path, ...]:
        """See `Kind`."""
        found = tuple(AbsolutePath().parse(item) for item in _items(text))
        if len(set(found)) < len(found):
            raise WrongValue("a path is listed twice")
        return found

    def describe(self) -> str:
        """See `Kind`."""
        return "absolute paths, separated by commas"


@dataclass(frozen=True, slots=True)
class Url:
    """SCHEME://host:port with one of these schemes."""

    schemes: tuple[str, ...]

    def parse(self, text: str) -> ListenerAddress:
        """See `Kind`."""
        found = _listener(
            text, f"must be {' or '.join(f'{each}://host:port' for each in self.schemes)}"
        )
        if found.name.lower() not in self.schemes:
            raise WrongValue(f"must be {' or '.join(self.schemes)}")
        return ListenerAddress(found.name.lower(), found.host, found.port)

    def describe(self) -> str:
        """See `Kind`."""
        return ", ".join(f"`{each}://host:port`" for each in self.schemes)


@dataclass(frozen=True, slots=True)
class Listeners:
    """NAME://host:port, separated by commas: unique names, with a required one, if any."""

    needed: str | None

    def parse(self, text: str) -> tuple[ListenerAddress, ...]:
        """See `Kind`."""
        found = tuple(
            _listener(
                item,
                f"must be {self.needed or 'NAME'}://host:port, optionally with others after a comma",
            )
            for item in _items(text)
        )
        names = [each.name for each in found]
        if len(set(names)) < len(names):
            raise WrongValue("a listener is listed twice")
        if self.needed is not None and self.needed not in names:
            raise WrongValue(f"one listener's name must be {self.needed}")
        return found

    def describe(self) -> str:
        """See `Kind`."""
        return f"`{self.needed or 'NAME'}://host:port,…`"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of listeners, separated by commas, with a required first one."""

    first: str

    def parse(self, text: str) -> tuple[str, ...]:
        """See `Kind`."""
        found = tuple(item.upper() for item in _items(text))
        if found[0] != self.first:
            raise WrongValue(
                f"must start with {self.first}, to which members connect; others can follow"
            )
        if len(set(found)) < len(found):
            raise WrongValue("a listener is listed twice")
        return found

    def describe(self) -> str:
        """See `Kind`."""
        return f"`{self.first},…`"


@dataclass(frozen=True, slots=True)
class Text:
    """Any text; it is checked together with the other settings of its listener.

    `shape`: for the reference.
    """

    shape: str

    def parse(self, text: str) -> str:
        """See `Kind`."""
        return text

    def describe(self) -> str:
        """See `Kind`."""
        return self.shape


@dataclass(frozen=True, slots=True)
class RoleRules:
    """Kafka's mapping rules, from a subject to the name of a role."""

    key: str

    def parse(self, text: str) -> MappingRules:
        """See `Kind`."""
        try:
            return parse_mapping_rules(text, self.key)
        except SecuritySettingError as error:
            raise WrongValue(error.why) from None

    def describe(self) -> str:
        """See `Kind`."""
        return "`RULE:pattern/role/`, …"


@dataclass(frozen=True, slots=True)
class HostPorts:
    """host:port, separated by commas, at least one."""

    def parse(self, text: str) -> tuple[HostPort, ...]:
        """See `Kind`."""
        return tuple(_address(parse_host_port, item) for item in _items(text))

    def describe(self) -> str:
        """See `Kind`."""
        return "`host:port,…`"


@dataclass(frozen=True, slots=True)
class Voters:
    """id@host:port, separated by commas, with unique ids."""

    def parse(self, text: str) -> tuple[VoterAddress, ...]:
        """See `Kind`."""
        voters = tuple(_address(parse_voter_address, item) for item in _items(text))
        if len({voter.id for voter in voters}) < len(voters):
            raise WrongValue("an id is listed twice")
        return voters

    def describe(self) -> str:
        """See `Kind`."""
        return "`id@host:port,…`"


@dataclass(frozen=True, slots=True)
class CountsByAddress:
    """Kafka's format: ADDRESS:COUNT, separated by commas; an IPv6 address may be in brackets."""

    def parse(self, text: str) -> Mapping[str, int]:
        """See `Kind`."""
        found: dict[str, int] = {}
        for item in text.split(","):
            address, _, count = item.strip().rpartition(":")
            try:
                name = str(ip_address(address.strip("[]")))
            except ValueError:
                raise WrongValue(f"{item.strip()!r} is not IP-ADDRESS:COUNT") from None
            if not _COUNT.fullmatch(count):
                raise WrongValue(f"{count!r} in {item.strip()!r} is not a number of connections")
            found[name] = int(count)
        return found

    def describe(self) -> str:
        """See `Kind`."""
        return "`ADDRESS:COUNT,…`"


@dataclass(frozen=True, slots=True)
class ProtocolMap:
    """LISTENER:PROTOCOL, separated by commas; see `parse_protocol_map`."""

    def parse(self, text: str) -> Mapping[str, SecurityProtocol]:
        """See `Kind`."""
        try:
            return parse_protocol_map(text)
        except SecuritySettingError as error:
            raise WrongValue(error.why) from None

    def describe(self) -> str:
        """See `Kind`."""
        return "`LISTENER:PROTOCOL,…`"


@dataclass(frozen=True, slots=True)
class Principals:
    """Type:name, separated by semicolons."""

    def parse(self, text: str) -> frozenset[str]:
        """See `Kind`."""
        try:
            return parse_super_users(text)
        except SecuritySettingError as error:
            raise WrongValue(error.why) from None

    def describe(self) -> str:
        """See `Kind`."""
        return "`Type:name;…`"


@dataclass(frozen=True, slots=True)
class TopicDefault:
    """A topic config under a broker's name; `factor` converts the broker's value to the topic's."""

    config: TopicConfig
    factor: int

    def parse(self, text: str) -> str:
        """See `Kind`."""
        fault = self.config.fault(scaled(text.strip(), self.factor))
        if fault is not None:
            raise WrongValue(fault if self.factor == 1 else f"times {self.factor}, {fault}")
        return text.strip()

    def describe(self) -> str:
        """See `Kind`."""
        return self.config.type.value


def _listener(text: str, shape: str) -> ListenerAddress:
    match = _LISTENER.match(text)
    if match is None:
        raise WrongValue(shape)
    host = match[2]
    if host not in WILDCARDS and not is_host(host):
        raise WrongValue(f"{host!r} is not a host")
    return ListenerAddress(match[1].upper(), host or "0.0.0.0", _port(match[3], text))


def _items(text: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise WrongValue("an entry between the commas is empty")
    return items


def _address(parse: Callable[[str], T], item: str) -> T:
    try:
        return parse(item)
    except ValueError as error:
        raise WrongValue(str(error)) from None


def _port(text: str, item: str) -> int:
    try:
        return parse_port(text, item)
    except ValueError as error:
        raise WrongValue(str(error)) from None
