"""Runs the operator: settings from the environment, kopf, signals."""

import asyncio
import os
import signal
import socket
import sys
from typing import Any

import kopf
import structlog
import uvloop

from quorum_node.core_dumps import forbid_core_dumps
from quorum_node.exit_codes import ExitCode
from quorum_operator import handlers, logs
from quorum_operator.application import Application
from quorum_operator.backoff import delay_s
from quorum_operator.kube.depth import allow_all_depths
from quorum_operator.settings import Settings, from_environment

STEADY_S = 60.0
"""Run time after which a start counts as successful."""
MOST_FAILURES = 6
"""Number of failed starts in a row after which the process exits."""
FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 15.0

_log = structlog.get_logger("quorum_operator")


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    forbid_core_dumps()
    allow_all_depths()
    try:
        settings = from_environment(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(ExitCode.BAD_CONFIGURATION)
    logs.configure(settings.log_level)
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    """Run until stopped. kopf gives up on unexpected answers, such as the 403 of an API server that has just started;
    then everything restarts within this process.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    failures = 0
    while not stop.is_set():
        begun = loop.time()
        try:
            await _operate(settings, stop)
            return
        except Exception as error:
            failures = 1 if loop.time() - begun > STEADY_S else failures + 1
            if failures >= MOST_FAILURES:
                raise
            _log.exception(
                "the operator restarts within the process", error=str(error) or type(error).__name__
            )
            await asyncio.sleep(delay_s(failures, FIRST_PAUSE_S, LAST_PAUSE_S))


async def _operate(settings: Settings, stop: asyncio.Event) -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, Application(settings))
    identity: Any = socket.gethostname()  # kopf does not export the type
    await kopf.operator(
        registry=registry,
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=list(settings.namespaces),
        stop_flag=stop,
        # By default kopf uses the user's name, which a container's numeric user does not have.
        identity=identity,
    )
