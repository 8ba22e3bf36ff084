"""What the requests name, and the form of one case.

Each right is for names with the prefix `mine`. So every request names an item of four kinds: allowed and not, existing and not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import Message

PREFIX = "mine"
EXISTING = ("mine", "other")
NAMES = ("other", "mine", "none", "mine-none")
"""Two of them exist, two may be used."""
UNKNOWN_ID = UUID(int=99)


@dataclass(frozen=True)
class Ids:
    """Ids of the topics of one cluster, by name. The others are unknown."""

    by_name: dict[str, UUID]

    def of(self, name: str) -> UUID:
        """The id, or one that no topic has."""
        return self.by_name.get(name, UNKNOWN_ID)


Case = tuple[Api, int, Callable[[Ids], Message]]
"""API, version, and the request."""


def fixed(api: Api, versions: tuple[int, ...], body: Message) -> list[Case]:
    """The same request in several versions, for a request without topic ids."""
    return [(api, version, lambda _: body) for version in versions]
