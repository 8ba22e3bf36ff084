"""uvicorn in the node's own loop: without signal handlers and access log, and with the node's limits of connections."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from time import perf_counter

import uvicorn
from starlette.types import ASGIApp

from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.ending.fail_stop import watch_task
from quorum_node.server.listener.acceptor import Acceptor
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.handshakes import Handshakes
from quorum_node.server.listener.http_connection import (
    BURST_SECONDS,
    MAX_HEADER_BYTES,
    SHARE,
    HttpConnection,
    HttpListener,
)
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.port_authentication import ClearText, PortAuthentication
from quorum_node.server.listener.principal_shares import PrincipalShares
from quorum_node.server.listener.revalidation import Revalidation
from quorum_node.server.observing.metrics import Metrics

_KEEP_ALIVE_SECONDS = 30
_SWEEP_SECONDS = 1.0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: the process has its own signal handlers."""
        yield


class AdminServer:
    """The admin listener. The socket is bound early, so that a port in use stops the start."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        metrics: Metrics,
        limits: ConnectionLimits,
        authentication: PortAuthentication | None = None,
        work: LoopWork | None = None,
    ) -> None:
        """`work`: load of all listeners of the process."""
        config = uvicorn.Config(
            app,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the address and the scheme of a caller are those of its connection
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        config.load()
        self._server = _Server(config)
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._book = ConnectionBook(limits, perf_counter, self._count_closed)
        turns = FairTurns(self._loop, share=SHARE, burst_seconds=BURST_SECONDS)
        authentication = authentication or ClearText(ADMIN_LISTENER)
        state = self._server.server_state
        principals = PrincipalShares(
            self._loop,
            limits.principal_requests,
            limits.principal_percentage,
            work or LoopWork(),
        )
        listener = HttpListener(
            config, state, self._book, turns, metrics, principals, authentication
        )
        self._revalidation = Revalidation(self._loop, authentication, lambda: self._connections)
        self._acceptor = Acceptor(
            sock,
            listener.make,
            limits.creation_rate,
            lambda error: self._count_closed("accept"),
            None if authentication.context is None else Handshakes(authentication, listener.make),
        )
        self._sweeping: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve in the running loop. Raises OSError if another socket listens on the port by now."""
        self._acceptor.start()
        # uvicorn adds the date header and handles the end; the acceptor accepts the connections.
        self._task = self._loop.create_task(self._server.serve(sockets=[]))
        watch_task(self._task)
        self._sweep()

    async def stop(self) -> None:
        """Finish the requests that are being answered, then stop."""
        self._acceptor.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._server.should_exit = True
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _sweep(self) -> None:
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        self._book.sweep()
        self._revalidation.sweep()

    @property
    def _connections(self) -> Iterator[HttpConnection]:
        return (each for each in self._book if isinstance(each, HttpConnection))

    def _count_closed(self, why: str) -> None:
        self._metrics.count_labelled("connections_closed", f"admin {why}")
