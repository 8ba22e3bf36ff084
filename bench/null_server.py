"""A server that answers every config write at once and does nothing else: measures the generator's own cost.

python bench/null_server.py --port 0        prints the port
"""

import argparse
import asyncio
from typing import cast

import uvloop

from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import AlterConfigsResult, IncrementalAlterConfigsResponse
from quorum_node.protocol.frames import encode_response

RESULT = AlterConfigsResult(error_code=0, resource_type=4, resource_name="")
ANSWER = encode_response(
    INCREMENTAL_ALTER_CONFIGS, 1, 0, IncrementalAlterConfigsResponse(responses=(RESULT,))
)


class Connection(asyncio.Protocol):
    """Cuts frames by their size and echoes the correlation id."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio.Transport
        self.transport = cast(asyncio.Transport, transport)
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        data = self.buffer + data
        position, answers = 0, []
        while len(data) - position >= 4:
            size = int.from_bytes(data[position : position + 4], "big")
            if len(data) - position < size + 4:
                break
            answers.append(ANSWER[:4] + data[position + 8 : position + 12] + ANSWER[8:])
            position += size + 4
        self.buffer = data[position:]
        self.transport.write(b"".join(answers))


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    uvloop.run(serve(parser.parse_args().port))
