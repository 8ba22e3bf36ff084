"""Runs the operator: settings from the environment, kopf, signals."""

import asyncio
import os
import signal
import socket
import sys
from typing import Any

import kopf
import uvloop

from quorum_operator import handlers, logs
from quorum_operator.application import Application
from quorum_operator.settings import Settings, from_environment

EXIT_BAD_CONFIGURATION = 78


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        settings = from_environment(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_BAD_CONFIGURATION)
    logs.configure(settings.log_level)
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, Application(settings))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    identity: Any = socket.gethostname()  # kopf's type of it is not public
    await kopf.operator(
        registry=registry,
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=list(settings.namespaces),
        stop_flag=stop,
        # kopf would ask for the user's name, which a numeric user of a container does not have.
        identity=identity,
    )
