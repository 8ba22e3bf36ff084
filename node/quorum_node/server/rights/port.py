"""What the listeners' rooms ask before they handle a request: the port of this room."""

from typing import Protocol

from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.rights.door import Asked, Denial

Decided = dict[object, Asked]
"""What a connection was allowed before, by what it asked for and for whom. Its own: never that of another caller."""


class Asking(Protocol):
    """A request of the Kafka port."""

    @property
    def caller(self) -> Caller:
        """Who asks: of a forwarded request the client of the broker."""

    @property
    def decided(self) -> Decided | None:
        """What this very caller was allowed before; None where nothing may be kept."""


class Guard(Protocol):
    """Asked once for each request."""

    @property
    def is_on(self) -> bool:
        """Whether an authorizer is configured: if not, HTTP is served by the admin token alone."""

    def request(self, asking: Asking, body: Message) -> Asked | Denial:
        """Of the Kafka port. What is allowed may have to be asked again for what the request names."""

    def route(self, caller: Caller, method: str, path: str) -> Asked | Denial | None:
        """Of the admin port; None: there is no such route."""
