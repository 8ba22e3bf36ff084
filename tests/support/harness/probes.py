"""The probes of one running container: startup, readiness, liveness, by HTTP.

Owns when to ask and what the answers mean. Periods are shortened, so that a test takes seconds;
thresholds are the pod's own.
"""

import asyncio
import contextlib
from collections.abc import Callable

import httpx

from support.harness.kube_api import Json

_PERIOD_LIMIT_S = 0.5


class Probes:
    """Runs until `ended` is set: then the process is gone and nothing is asked any more."""

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
        async with httpx.AsyncClient(trust_env=False) as client:
            if "startupProbe" in self._spec:
                await self._started(client, self._spec["startupProbe"])
            await asyncio.gather(self._readiness(client), self._liveness(client))

    async def _started(self, client: httpx.AsyncClient, probe: Json) -> None:
        while not self.ended.is_set():
            if await self._asked(client, probe):
                return
            await self._pause(probe)

    async def _readiness(self, client: httpx.AsyncClient) -> None:
        probe = self._spec.get("readinessProbe")
        if probe is None:
            self._set_ready(True)
            return
        failures = 0
        while not self.ended.is_set():
            good = await self._asked(client, probe)
            failures = 0 if good else failures + 1
            if good or failures >= _threshold(probe):
                self._set_ready(good)
            await self._pause(probe)

    async def _liveness(self, client: httpx.AsyncClient) -> None:
        probe = self._spec.get("livenessProbe")
        failures = 0
        while probe is not None and not self.ended.is_set():
            await self._pause(probe)
            failures = 0 if await self._asked(client, probe) else failures + 1
            if failures >= _threshold(probe) and not self.ended.is_set():
                self._kill()
                return

    async def _pause(self, probe: Json) -> None:
        period_s = min(float(probe.get("periodSeconds", 10)), _PERIOD_LIMIT_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), period_s)

    async def _asked(self, client: httpx.AsyncClient, probe: Json) -> bool:
        if self.ended.is_set():
            return False
        get = probe.get("httpGet")
        if get is None:
            raise NotImplementedError(f"the harness knows only httpGet probes, not {probe}")
        port = get["port"] if isinstance(get["port"], int) else self._named_port(get["port"])
        url = f"http://{self._address}:{port}{get.get('path', '/')}"
        try:
            answer = await client.get(url, timeout=float(probe.get("timeoutSeconds", 1)))
        except httpx.HTTPError:
            return False
        return 200 <= answer.status_code < 400

    def _named_port(self, name: str) -> int:
        ports = self._spec.get("ports", [])
        return int(next(port["containerPort"] for port in ports if port.get("name") == name))


def _threshold(probe: Json) -> int:
    return int(probe.get("failureThreshold", 3))
