"""The port of this package: the check that the listeners make before they handle a request."""

from typing import Protocol

from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.rights.request_authorizer import Asked, Denial

Decided = dict[object, Asked]
"""Cached decisions of one connection, by operation and resource. Never shared between callers."""


class Asking(Protocol):
    """A request of the Kafka port."""

    @property
    def caller(self) -> Caller:
        """The caller; of a forwarded request, the client of the broker."""

    @property
    def decided(self) -> Decided | None:
        """Cached decisions about this caller; None where they must not be cached."""


class Guard(Protocol):
    """Called once for each request."""

    @property
    def is_on(self) -> bool:
        """Whether an authorizer is configured. If not, HTTP requests are only checked for the admin token."""

    def request(self, asking: Asking, body: Message) -> Asked | Denial:
        """Check a request of the Kafka port. An allowed request may need further checks of the resources that it names."""

    def route(self, caller: Caller, method: str, path: str) -> Asked | Denial | None:
        """Check a request of the admin port; None: there is no such route."""
