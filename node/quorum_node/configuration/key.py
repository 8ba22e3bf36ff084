"""One configuration key: name, kind of value, default, and who sets it.

Must not know properties: `properties.py` looks keys up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Literal, TypeVar

from quorum_node.configuration.value_kinds import Kind

T = TypeVar("T")


class Required(Enum):
    """Used as default of a required key."""

    REQUIRED = "required"


REQUIRED: Literal[Required.REQUIRED] = Required.REQUIRED


class Owner(Enum):
    """Who sets a key on Kubernetes. Without the operator, the administrator of the node sets all keys."""

    NODE = "node"
    OPERATOR = "operator"


class Scope(Enum):
    """The part of a node that a key applies to."""

    NODE = "node"
    LISTENER = "listener"
    """To all listeners, and as `listener.name.NAME.KEY` to one of them."""


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """`default`: used if the key is absent or empty. `listener_defaults`: instead of it, by listener."""

    name: str
    kind: Kind[T]
    default: T | Literal[Required.REQUIRED]
    doc: str
    owner: Owner = Owner.NODE
    scope: Scope = Scope.NODE
    listener_defaults: Mapping[str, T] = field(default_factory=dict)
    shown: str | None = None
    """Description of the default, where its value is not readable."""

    def default_of(self, listener: str = "") -> T:
        """The default; only for a key that is not required."""
        default = self.listener_defaults.get(listener, self.default)
        assert default is not REQUIRED, f"{self.name} has no default"
        return default

    def name_for(self, listener: str) -> str:
        """Name of the key for one listener, which precedes the plain name."""
        return f"listener.name.{listener}.{self.name}"
