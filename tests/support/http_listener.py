"""The HTTP listener of a node around any ASGI application, without limits of time."""

import asyncio
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.http_connection import HttpListener
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.principal_shares import PrincipalShares
from quorum_node.server.observing.metrics import Metrics


def http_listener(application: Any) -> HttpListener:
    """On the running loop."""
    loop, limits, metrics = asyncio.get_running_loop(), ConnectionLimits(), Metrics()
    config = uvicorn.Config(application, loop="none", ws="none", lifespan="off", log_config=None)
    config.load()
    return HttpListener(
        config,
        ServerState(),
        ConnectionBook(limits, loop.time, lambda why: None),
        FairTurns(loop, share=1.0, burst_seconds=1.0),
        metrics,
        PrincipalShares(loop, limits.principal_requests, limits.principal_percentage, LoopWork()),
    )
