"""One key of the configuration: its name, what it may hold, what holds without it, and who sets it.

Knows no properties: `properties.py` looks keys up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Literal, TypeVar

from quorum_node.configuration.value_kinds import Kind

T = TypeVar("T")


class Required(Enum):
    """In place of a default: the key has to be there."""

    REQUIRED = "required"


REQUIRED: Literal[Required.REQUIRED] = Required.REQUIRED


class Owner(Enum):
    """Who sets a key on Kubernetes; without an operator whoever runs the node sets all of them."""

    NODE = "node"
    OPERATOR = "operator"


class Scope(Enum):
    """What a key holds for."""

    NODE = "node"
    LISTENER = "listener"
    """For every listener, and as `listener.name.NAME.KEY` for one of them."""


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """`default` counts where the key is absent or empty; `listener_defaults`: instead of it, by listener."""

    name: str
    kind: Kind[T]
    default: T | Literal[Required.REQUIRED]
    doc: str
    owner: Owner = Owner.NODE
    scope: Scope = Scope.NODE
    listener_defaults: Mapping[str, T] = field(default_factory=dict)
    shown: str | None = None
    """The default in words, where its value says little."""

    def default_of(self, listener: str = "") -> T:
        """What holds where nothing is written; only for a key that is not required."""
        default = self.listener_defaults.get(listener, self.default)
        assert default is not REQUIRED, f"{self.name} has no default"
        return default

    def name_for(self, listener: str) -> str:
        """Its name for one listener, which goes before its plain name."""
        return f"listener.name.{listener}.{self.name}"
