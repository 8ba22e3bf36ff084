"""uvicorn inside the node's own loop: no signal handlers, no access log, malformed bytes counted."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from quorum_node.server.fail_stop import watch_task
from quorum_node.server.metrics import Metrics

_KEEP_ALIVE_SECONDS = 30


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process has its own signal handlers."""
        yield


class AdminServer:
    """The admin listener. The socket is bound early, so that a taken port stops the start."""

    def __init__(self, app: FastAPI, sock: socket.socket, metrics: Metrics) -> None:
        class CountingProtocol(H11Protocol):
            """Counts what is no HTTP."""

            def send_400_response(self, msg: str) -> None:
                metrics.count_labelled("malformed_requests", "admin")
                super().send_400_response(msg)

        config = uvicorn.Config(
            app,
            loop="none",
            http=CountingProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._socket = sock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve in the running loop."""
        self._task = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[self._socket])
        )
        watch_task(self._task)

    async def stop(self) -> None:
        """Finish what is being answered, then stop."""
        self._server.should_exit = True
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def bind(host: str, port: int) -> socket.socket:
    """A bound, not yet listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host.strip("[]"), port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
