"""A listener on which all connections are of one user."""

import asyncio

from quorum_node.security.caller import Caller
from quorum_node.server.listener.port_authentication import Anonymous, ClearText


class Known(ClearText):
    """A port with the same user for all connections."""

    user = Caller("User:a", "10.0.0.1", "CONTROLLER")

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> Anonymous:
        return Anonymous(self.user)
