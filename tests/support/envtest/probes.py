"""The probes of one running container: startup, readiness, liveness, by HTTP.

Owns the times of probes and the meaning of results. Periods are shortened, so that a test takes seconds; thresholds
are those of the pod.
"""

import asyncio
import contextlib
import http.client
from collections.abc import Callable

from support.envtest.kube_api import Json

_PERIOD_LIMIT_S = 0.5


class Probes:
    """Runs until `ended` is set, when the process has ended."""

    def __init__(
        self,
        spec: Json,
        address: str,
        set_ready: Callable[[bool], None],
        kill: Callable[[], None],
    ) -> None:
        self.ended = asyncio.Event()
        self._spec = spec
        self._address = address
        self._set_ready = set_ready
        self._kill = kill

    async def run(self) -> None:
        if "startupProbe" in self._spec:
            await self._started(self._spec["startupProbe"])
        await asyncio.gather(self._readiness(), self._liveness())

    async def _started(self, probe: Json) -> None:
        while not self.ended.is_set():
            if await self._asked(probe):
                return
            await self._pause(probe)

    async def _readiness(self) -> None:
        probe = self._spec.get("readinessProbe")
        if probe is None:
            self._set_ready(True)
            return
        failures = 0
        while not self.ended.is_set():
            good = await self._asked(probe)
            failures = 0 if good else failures + 1
            if good or failures >= _threshold(probe):
                self._set_ready(good)
            await self._pause(probe)

    async def _liveness(self) -> None:
        probe = self._spec.get("livenessProbe")
        failures = 0
        while probe is not None and not self.ended.is_set():
            await self._pause(probe)
            failures = 0 if await self._asked(probe) else failures + 1
            if failures >= _threshold(probe) and not self.ended.is_set():
                with contextlib.suppress(ProcessLookupError):
                    self._kill()
                return

    async def _pause(self, probe: Json) -> None:
        period_s = min(float(probe.get("periodSeconds", 10)), _PERIOD_LIMIT_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period_s):
                await self.ended.wait()

    async def _asked(self, probe: Json) -> bool:
        """Runs in a thread, where a cancelled request still closes its socket."""
        if self.ended.is_set():
            return False
        get = probe.get("httpGet")
        if get is None:
            raise NotImplementedError(f"the harness knows only httpGet probes, not {probe}")
        port = get["port"] if isinstance(get["port"], int) else self._named_port(get["port"])
        timeout_s = float(probe.get("timeoutSeconds", 1))
        return await asyncio.to_thread(
            _answers, self._address, port, get.get("path", "/"), timeout_s
        )

    def _named_port(self, name: str) -> int:
        ports = self._spec.get("ports", [])
        return int(next(port["containerPort"] for port in ports if port.get("name") == name))


def _answers(address: str, port: int, path: str, timeout_s: float) -> bool:
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _threshold(probe: Json) -> int:
    return int(probe.get("failureThreshold", 3))
