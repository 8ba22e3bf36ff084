"""A simulated node whose Kafka listener the test controls."""

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from quorum_node.protocol.api_versions import ApiVersion, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, APIS, FIRST_PRIVATE_KEY
from quorum_node.protocol.discover_brokers import DiscoverBrokersResponse
from quorum_node.protocol.frames import Request, decode_request, encode_response
from quorum_node.raft.config import CONTROLLER
from quorum_node.records.identity import Endpoint

Handle = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A simulated peer: answers ApiVersions, and passes other requests to `handle`.

    `stock`: it serves none of the private APIs, like stock Kafka. `context`: it uses TLS.
    """

    def __init__(
        self, handle: Handle, *, stock: bool = False, context: ssl.SSLContext | None = None
    ) -> None:
        self._handle = handle
        self._context = context
        self._served = _served(FIRST_PRIVATE_KEY if stock else 1 << 15)
        self.writers: list[asyncio.StreamWriter] = []
        self.endpoint = Endpoint(CONTROLLER, "127.0.0.1", 0)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        port = self._server.sockets[0].getsockname()[1]
        self.endpoint = Endpoint(CONTROLLER, "127.0.0.1", port)

    def as_leader(self) -> DiscoverBrokersResponse:
        """The answer to DiscoverBrokers that names this peer as the leader."""
        return DiscoverBrokersResponse(
            error_code=0,
            cluster_id="c",
            leader_id=1,
            leader_epoch=1,
            leader_host=self.endpoint.host,
            leader_port=self.endpoint.port,
            brokers=(),
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = decode_request(await reader.readexactly(size))
                if request.api is API_VERSIONS:
                    number = request.correlation_id
                    writer.write(encode_response(API_VERSIONS, 4, number, self._served))
                else:
                    await self._handle(request, writer)

    def close(self) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()


def _served(before_key: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=tuple(
            ApiVersion(api_key=a.key, min_version=a.min_version, max_version=a.max_version)
            for a in APIS.values()
            if a.key < before_key
        ),
    )
